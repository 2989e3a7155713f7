"""What a run changes on this host, kept as it was before, so that the run can be undone.

    /var/lib/slurmfab/kept/RUN/manifest   a JSON line for each file and service, written before it is changed
    /var/lib/slurmfab/kept/RUN/0 1 2 …    the files' contents, each with its file's owner and mode

A line of the manifest is written when the content that it names is safely on the disk, and the change comes after that.
So whatever a run was killed at, each line is true; a last line that was cut off tells of no change.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import stat
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional, Tuple

from slurmfab.agent import replace
from slurmfab.agent.accounts import group_name, user_name
from slurmfab.agent.reading import names, read_bytes, read_text
from slurmfab.agent.reasons import reason
from slurmfab.agent.resource import Context, Resource, ResourceFailed
from slurmfab.agent.service import ENABLED, RUNS, show

KEPT = "/var/lib/slurmfab/kept"
"""Where it lies: root's alone, for copies of secrets are in it."""

NEWEST = 20
"""How many runs stay; each new one takes the place of the oldest."""

UNDO = "-rollback"
"""How the ids of runs that undo others end. They may need the oldest copies, so they leave twice as many in place."""

LARGEST = 16 * 1024 * 1024
"""Bytes of the largest file that is kept, and so changed at all; those of slurmfab's are a thousand times smaller."""

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[a-z][a-z-]{0,39}")
"""The ids of runs: when, in UTC, and what. They become names of directories, so nothing else is taken for one."""

MANIFEST, DROPPED = "manifest", "dropped"

Entry = Dict[str, Any]
"""A line of a manifest."""


def checked(run: str) -> str:
    """A run's id, once it is known to be one.

    Raises:
        ResourceFailed: it is none.
    """
    if not RUN_ID.fullmatch(run):
        raise ResourceFailed("%r is no id of a run" % run[:80])
    return run


def keep(resource: Resource, context: Context, differing: frozenset[str]) -> None:
    """Keep the files and services that a resource is about to change, each once for a run.

    Args:
        resource: what will be converged next.
        context: names the run; nothing is kept for one without an id.
        differing: the names that differ.

    Raises:
        ResourceFailed: it cannot be kept, so it must not be changed.
    """
    paths, units = resource.touches(differing), resource.units()
    if not context.run_id or not (paths or units):
        return
    try:
        folder = opened(context)
        known = entries(context, context.run_id)
        has_path, has_unit = ({entry.get(key) for entry in known} for key in ("path", "unit"))
        blobs = itertools.count(len(known))
        for path in paths:
            if path not in has_path:
                is_secret = resource.holds_secret(path)
                append(folder, keep_file(context, os.path.join(folder, str(next(blobs))), path, is_secret))
        for unit in units:
            if unit not in has_unit:
                shown = show(context, unit)
                state = {"enabled": shown.get("UnitFileState", ""), "running": shown.get("ActiveState", "")}
                append(folder, {"unit": unit, **state})
    except OSError as error:
        words = "nothing was changed, since the state before cannot be kept below %s: %s"
        raise ResourceFailed(words % (KEPT, reason(error))) from error


def opened(context: Context) -> str:
    """The directory of this run; when it is new, the oldest of others go."""
    base = context.path(KEPT)
    folder = os.path.join(base, checked(context.run_id))
    if os.path.isdir(folder):
        return folder
    for path, mode in ((os.path.dirname(base), 0o755), (base, 0o700)):
        if not os.path.isdir(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path, mode)
    replace.change_access(base, os.geteuid(), os.getegid(), 0o700, is_directory=True)
    drop_oldest(context, NEWEST * 2 if context.run_id.endswith(UNDO) else NEWEST)
    os.mkdir(folder, 0o700)
    replace.sync(base)
    return folder


def drop_oldest(context: Context, limit: int) -> None:
    """Make room for one more run; which was the last to go is noted, for those who would go back behind it."""
    base = context.path(KEPT)
    gone = [run for run in runs(context) if run != context.run_id][: 1 - limit]
    if gone:
        note_dropped(context, gone[-1])
    for run in gone:
        # Without its manifest a run has kept nothing, so one that is half removed misleads nobody.
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(base, run, MANIFEST))
        shutil.rmtree(os.path.join(base, run))


def note_dropped(context: Context, run: str) -> None:
    """Note that nobody can go back behind a run any more."""
    path = os.path.join(context.path(KEPT), DROPPED)
    replace.put(path, max(run, dropped(context)).encode(), *owner(), 0o600)


def owner() -> Tuple[int, int]:
    """Who owns the manifests: root, wherever the agent is more than a test."""
    return os.geteuid(), os.getegid()


def keep_file(context: Context, blob: str, path: str, is_secret: bool) -> Entry:
    """Copy a file, and tell what it was.

    Args:
        context: the request's context.
        blob: path of the copy; one of this name belongs to no line of the manifest, and goes.
        path: of the file.
        is_secret: whether no report may show it.

    Raises:
        ResourceFailed: it is too large, or turned into something else meanwhile.
        OSError: it cannot be read, or not be copied.
    """
    place = context.path(path)
    try:
        status = os.lstat(place)
    except FileNotFoundError:
        return {"path": path, "existed": False}
    if not stat.S_ISREG(status.st_mode):
        # Only where a file shall be absent may something else go.
        what = "a symbolic link to %s" % os.readlink(place) if stat.S_ISLNK(status.st_mode) else "no regular file"
        return {"path": path, "existed": True, "other": what}
    status, content = regular(place)
    replace.put(blob, content, status.st_uid, status.st_gid, status.st_mode & 0o777)
    replace.sync(os.path.dirname(blob))
    return {
        "path": path,
        "existed": True,
        "owner": user_name(context, status.st_uid),
        "group": group_name(context, status.st_gid),
        "mode": "%04o" % (status.st_mode & 0o7777),
        "secret": is_secret or is_private(status),
        "blob": os.path.basename(blob),
    }


def regular(place: str) -> Tuple[os.stat_result, bytes]:
    """The status and the content of one and the same regular file, whoever may be exchanging it.

    Raises:
        ResourceFailed: it is none any more, or too large.
        OSError: it cannot be read.
    """
    with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ResourceFailed("%s has just become something else than a file" % place)
        if status.st_size > LARGEST:
            words = "%s is %d bytes large, too large to keep for an undo, so it was not changed; look at what it is"
            raise ResourceFailed(words % (place, status.st_size))
        return status, file.read()


def is_private(status: os.stat_result) -> bool:
    """Whether not everybody may read a file, so that no report shows it either."""
    return not status.st_mode & stat.S_IROTH


def append(folder: str, entry: Entry) -> None:
    """Write a line of the manifest, and see it on the disk."""
    line = json.dumps(entry).encode("ascii") + b"\n"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with open(os.open(os.path.join(folder, MANIFEST), flags, 0o600), "r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        # The line that a killed run, or a full disk, has cut off is ended, so that it does not spoil the next one.
        is_whole = not size or os.pread(file.fileno(), 1, size - 1) == b"\n"
        write_all(file.fileno(), line if is_whole else b"\n" + line)
        os.fsync(file.fileno())
    if not size:
        replace.sync(folder)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of this; a full disk takes a part first and complains at the next."""
    while data:
        data = data[os.write(descriptor, data) :]


def runs(context: Context) -> List[str]:
    """The ids of the runs that something is kept of, oldest first."""
    return [name for name in names(context.path(KEPT)) if RUN_ID.fullmatch(name)]


def dropped(context: Context) -> str:
    """The newest run whose copies are gone already; empty while there is none."""
    return read_text(os.path.join(context.path(KEPT), DROPPED))


def entries(context: Context, run: str) -> List[Entry]:
    """What a run has kept, in the order of its changes; lines that were cut off are left out."""
    found = []
    for line in read_bytes(os.path.join(context.path(KEPT), checked(run), MANIFEST)).splitlines():
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                found.append(entry)
    return found


def content_of(context: Context, run: str, entry: Entry) -> Optional[bytes]:
    """The content that a run has kept of a file; `None` when there is none, or not any more."""
    try:
        with open(os.path.join(context.path(KEPT), checked(run), entry["blob"]), "rb") as file:
            return file.read()
    except (KeyError, FileNotFoundError):
        return None


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What was before a run and those after it, of all that they have changed on this host.

    Args:
        request: `since`: the run's id; the oldest one when left out.
        context: the request's context.

    Returns:
        `runs`: ids of those that have kept anything since, oldest first. `dropped`: the newest run whose copies are
        gone already, or nothing. `files` and `services`, each once, as it was before the oldest of these runs that
        changed it; `content` is `None` for secrets and for what is no UTF-8; `same`: whether the file holds that now.

    Raises:
        ResourceFailed: `since` is no id of a run.
    """
    since = checked(request["since"]) if request.get("since") else ""
    found = [run for run in runs(context) if run >= since]
    files: Dict[str, Entry] = {}
    services: Dict[str, Entry] = {}
    for run in found:
        for entry in entries(context, run):
            if "path" in entry and entry["path"] not in files:
                files[entry["path"]] = told_file(context, run, entry)
            elif "unit" in entry:
                is_on, is_up = entry.get("enabled") in ENABLED, entry.get("running") in RUNS
                services.setdefault(entry["unit"], {**entry, "enabled": is_on, "running": is_up, "run": run})
    return {
        "runs": found,
        "dropped": dropped(context),
        "files": list(files.values()),
        "services": list(services.values()),
    }


def told_file(context: Context, run: str, entry: Entry) -> Entry:
    """A kept file as the deployer gets to know it."""
    kept = content_of(context, run, entry)
    content = None if entry.get("secret", True) else kept
    same = kept is not None and kept == read_bytes(context.path(entry["path"]))
    told = {"owner": "", "group": "", "mode": "", "secret": False, **entry, "run": run, "content": None, "same": same}
    told.pop("blob", None)
    with suppress(UnicodeDecodeError):
        told["content"] = None if content is None else content.decode()
    return told
