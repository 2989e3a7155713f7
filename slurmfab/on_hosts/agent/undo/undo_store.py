"""The undo store of a host: the state of files and services before each run, so that runs can be undone.

    /var/lib/slurmfab/kept/RUN/manifest   a JSON line for each file, directory and service, written before it is changed
    /var/lib/slurmfab/kept/RUN/0 1 2 …    copies of the files, each with its file's owner and mode

The copy of a file is flushed to the disk before its line in the manifest, and the line before the file is changed. So
each line is true whenever a run is interrupted, and an incomplete last line belongs to a file that was not changed.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import stat
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.core import json_objects, replace
from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.host_lock import LOCK
from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.core.reading import names, read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import Folder, open_folder, open_parent
from slurmfab.on_hosts.agent.identities.users_and_groups import group_name, user_name
from slurmfab.on_hosts.agent.services.service import ENABLED, RUNS, show

DIRECTORY = "/var/lib/slurmfab/kept"
"""The directory of the store; only root can read it, because it contains copies of secrets."""

NEWEST = 20  # how many runs the store keeps; each new run replaces the oldest

UNDO = "-rollback"
"""The end of the ids of runs that undo others. They may need the oldest copies, so they keep twice as many runs."""

MAX_FILE_BYTES = 16 * 1024 * 1024
"""A larger file is neither stored nor changed; files of slurmfab are a thousand times smaller."""

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[a-z][a-z-]{0,39}")
"""The ids of runs: time in UTC and name of the task. They are names of directories, so all other text is refused."""

MOST_HOLDER = 500  # characters of the name of the run that had the host's lock last

MANIFEST, DROPPED = "manifest", "dropped"

Entry = Dict[str, Any]  # a line of a manifest


def checked(run: str) -> str:
    """The given text, if it is the id of a run. Raises ResourceFailed if it is not."""
    if not RUN_ID.fullmatch(run):
        raise ResourceFailed("%r is not the id of a run" % run[:80])
    return run


def keep(resource: Resource, context: Context, differing: frozenset[str]) -> None:
    """Store the files, directories and services that a resource will change, each once per run.

    `resource`: the resource that will be converged next. `context`: the request's context; nothing is stored for a run
    without an id. Raises ResourceFailed if the state cannot be stored, so the resource must not be converged.
    """
    paths, units = resource.touches(differing), resource.units()
    folders = {path: access for path in resource.folders() if (access := access_to(context, path))}
    if not context.run_id or not (paths or folders or units):
        return
    try:
        folder = run_folder(context)
        known = entries(context, context.run_id)
        has_path, has_folder, has_unit = ({entry.get(key) for entry in known} for key in ("path", "directory", "unit"))
        blobs = itertools.count(len(known))
        for path in paths:
            if path not in has_path:
                is_secret = resource.holds_secret(path)
                append(folder, store_file(context, os.path.join(folder, str(next(blobs))), path, is_secret))
        for path, access in folders.items():
            if path not in has_folder:
                append(folder, {"directory": path, **access})
        for unit in units:
            if unit not in has_unit:
                shown = show(context, unit)
                state = {"enabled": shown.get("UnitFileState", ""), "running": shown.get("ActiveState", "")}
                append(folder, {"unit": unit, **state})
    except OSError as error:
        message = "nothing was changed, because the state before cannot be stored below %s: %s"
        raise ResourceFailed(message % (DIRECTORY, reason(error))) from error


def access_to(context: Context, path: str) -> Entry:
    """Owner, group and mode of a directory, which may be behind root's link; empty where there is none."""
    try:
        with open_folder(context.path(path)) as found:
            status = found.status
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {
        "owner": user_name(context, status.st_uid),
        "group": group_name(context, status.st_gid),
        "mode": "%04o" % (status.st_mode & 0o7777),
    }


def run_folder(context: Context) -> str:
    """The directory of this run in the store; it is made if it is missing, and then the oldest runs are removed."""
    base = context.path(DIRECTORY)
    folder = os.path.join(base, checked(context.run_id))
    if os.path.isdir(folder):
        return folder
    replace.make_directory(base, os.geteuid(), os.getegid(), 0o700)
    drop_oldest(context, NEWEST * 2 if context.run_id.endswith(UNDO) else NEWEST)
    os.mkdir(folder, 0o700)
    replace.sync(base)
    return folder


def drop_oldest(context: Context, limit: int) -> None:
    """Remove the oldest runs to make room for one more, and note the newest removed one.

    `limit`: how many runs the store may have with the new one.
    """
    base = context.path(DIRECTORY)
    oldest = [run for run in runs(context) if run != context.run_id][: 1 - limit]
    if oldest:
        note_dropped(context, oldest[-1])
    for run in oldest:
        # The manifest goes first: without it, a directory that is half removed counts as empty.
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(base, run, MANIFEST))
        shutil.rmtree(os.path.join(base, run))


def note_dropped(context: Context, run: str) -> None:
    """Note that this run and those before it cannot be undone any more."""
    path = os.path.join(context.path(DIRECTORY), DROPPED)
    replace.put(path, max(run, dropped(context)).encode(), os.geteuid(), os.getegid(), 0o600)


def store_file(context: Context, blob: str, path: str, is_secret: bool) -> Entry:
    """Copy a file, and return its entry for the manifest.

    Args:
        blob: path of the copy; an existing file there belongs to no line of the manifest and is replaced.
        is_secret: whether no report may show the content.

    Returns:
        `path` and `existed`. For a regular file also `owner`, `group`, `mode`, `secret` and `blob`, the name of the
        copy; for a link that root made `link`, where it leads; for something else `other`, what it is.

    Raises:
        ResourceFailed: the file is too large, or is being replaced by something else.
        OSError: the file cannot be read or copied.
    """
    try:
        folder, name = open_parent(context.path(path))
    except FileNotFoundError:
        return {"path": path, "existed": False}
    with folder:
        status = folder.find(name)
        if status is None:
            return {"path": path, "existed": False}
        if not stat.S_ISREG(status.st_mode):
            return {"path": path, "existed": True, "secret": is_secret, **what_else(folder, name, status)}
        status, content = regular(folder, name)
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


def what_else(folder: Folder, name: str, status: os.stat_result) -> Entry:
    """What a name is that is no regular file, for its entry: where root's link leads, or what else it is."""
    if not stat.S_ISLNK(status.st_mode):
        return {"other": "not a regular file"}
    target = os.readlink(name, dir_fd=folder.descriptor)
    return {"other": "a symbolic link to %s" % target} if folder.others else {"link": target}


def regular(folder: Folder, name: str) -> Tuple[os.stat_result, bytes]:
    """Status and content of a regular file, even while replaced; ResourceFailed if it is none or too large."""
    descriptor = folder.open(name)
    if descriptor is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder.place(name))
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_FILE_BYTES:
            message = "%s has %d bytes, which is too large for the undo store, so it was not changed; check what it is"
            raise ResourceFailed(message % (folder.place(name), status.st_size))
        return status, file.read(MAX_FILE_BYTES)


def is_private(status: os.stat_result) -> bool:
    """Whether some users cannot read a file, so that no report may show its content."""
    return not status.st_mode & stat.S_IROTH


def append(folder: str, entry: Entry) -> None:
    """Add a line to the manifest, and flush it to the disk."""
    line = json.dumps(entry).encode("ascii") + b"\n"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with open(os.open(os.path.join(folder, MANIFEST), flags, 0o600), "r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        # An interrupted run or a full disk may leave an incomplete line; it is ended, so that the next one is valid.
        is_whole = not size or os.pread(file.fileno(), 1, size - 1) == b"\n"
        write_all(file.fileno(), line if is_whole else b"\n" + line)
        os.fsync(file.fileno())
    if not size:
        replace.sync(folder)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data; on a full disk, write(2) may write a part before it fails."""
    while data:
        data = data[os.write(descriptor, data) :]


def runs(context: Context) -> List[str]:
    """The ids of the runs in the store, oldest first."""
    return [name for name in names(context.path(DIRECTORY)) if RUN_ID.fullmatch(name)]


def dropped(context: Context) -> str:
    """The newest run whose copies were removed; empty if there is none."""
    return read_text(os.path.join(context.path(DIRECTORY), DROPPED))


def entries(context: Context, run: str) -> List[Entry]:
    """The entries in the manifest of a run, in the order of its changes, without incomplete lines."""
    lines = read_bytes(os.path.join(context.path(DIRECTORY), checked(run), MANIFEST)).splitlines()
    return [entry for entry in map(json_objects.parse, lines) if entry is not None]


def content_of(context: Context, run: str, entry: Entry) -> Optional[bytes]:
    """The content of a file before a run; `None` when there is no copy."""
    try:
        with open(os.path.join(context.path(DIRECTORY), checked(run), entry["blob"]), "rb") as file:
            return file.read()
    except (KeyError, FileNotFoundError):
        return None


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """The state before a run, of all files, directories and services that this run and later ones changed on this host.

    Args:
        request: `since`: the id of the run; by default the oldest one.

    Returns:
        `runs`: ids of these runs, oldest first. `last`: who changed this host last, and when, since its boot; or empty.
        `dropped`: the newest run whose copies were removed, or empty. `files` and `services`: one entry for each, from
        the oldest of these runs that changed it, with its id as `run`. Of files, `content` is `None` for secrets and
        for bytes that are not UTF-8, and `same` tells whether the file has that content now; `whole` is the text of a
        file of Slurm's that includes others, with these. Of a link, `link` is where it led, `content` the text that is
        there now, if all users can read it. Of services, `enabled` and `running` are booleans. `directories` likewise,
        those that were there, with `owner`, `group` and `mode`.

    Raises:
        ResourceFailed: `since` is not the id of a run.
    """
    since = checked(request["since"]) if request.get("since") else ""
    found = [run for run in runs(context) if run >= since]
    files: Dict[str, Entry] = {}
    services: Dict[str, Entry] = {}
    directories: Dict[str, Entry] = {}
    for run in found:
        for entry in entries(context, run):
            if "path" in entry and entry["path"] not in files:
                files[entry["path"]] = file_answer(context, run, entry)
            elif "directory" in entry:
                directories.setdefault(entry["directory"], {**entry, "run": run})
            elif "unit" in entry:
                is_on, is_up = entry.get("enabled") in ENABLED, entry.get("running") in RUNS
                services.setdefault(entry["unit"], {**entry, "enabled": is_on, "running": is_up, "run": run})
    return {
        "runs": found,
        "last": "".join(filter(str.isprintable, read_text(context.path(LOCK))))[:MOST_HOLDER],
        "dropped": dropped(context),
        "files": list(files.values()),
        "directories": list(directories.values()),
        "services": list(services.values()),
    }


def file_answer(context: Context, run: str, entry: Entry) -> Entry:
    """The entry of a file in the answer of `read`."""
    copy = linked(context, entry) if "link" in entry else content_of(context, run, entry)
    content = None if entry.get("secret", True) else copy
    same = copy is not None and copy == present(context.path(entry["path"]))
    same = link_of(context, entry["path"]) == entry["link"] if "link" in entry else same
    answer = {"owner": "", "group": "", "mode": "", "secret": False, **entry, "run": run, "content": None, "same": same}
    answer.pop("blob", None)
    with suppress(UnicodeDecodeError):
        answer["content"] = None if content is None else content.decode()
    everything = whole(context.path(entry["path"]), content or b"")
    if answer["content"] and everything != content:
        answer["whole"] = everything.decode(errors="replace")
    return answer


def link_of(context: Context, path: str) -> str:
    """Where a link leads that only root can change; empty for anything else."""
    with suppress(OSError, ResourceFailed):
        folder, name = open_parent(context.path(path))
        with folder:
            return folder.link(name)
    return ""


def linked(context: Context, entry: Entry) -> Optional[bytes]:
    """What lies where a link of root's led; `None` if there is no file that all users can read."""
    place = os.path.join(os.path.dirname(entry["path"]), entry["link"])
    with suppress(OSError, ResourceFailed):
        found = replace.find(context.path(os.path.normpath(place)))
        if found is not None and not is_private(found[0]):
            return found[1]
    return None


def present(path: str) -> bytes:
    """The content of a file; empty if it cannot be read, or is not a regular file."""
    try:
        return replace.read(path) or b""
    except (ResourceFailed, OSError):
        return b""
