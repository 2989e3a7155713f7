"""Copying packages of a bundle to a host: only the missing ones, and each file whole or not at all.

{"op": "bundle", "do": "begin", "bundle": ..., "index": ..., "names": [...]}   -> {"bundle": {"lacking": [...]}}
{"op": "bundle", "do": "begin-files", "bundle": ..., "files": {NAME: SHA-256}, "bytes": [...]} -> the same
{"op": "bundle", "do": "write", "bundle": ..., "file": ..., "at": 0, "data": "<base64>", "sha256": ""}
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.reading import sha256_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages import apt_errors, bundle_place, dpkg_status
from slurmfab.on_hosts.agent.packages.apt import FIX_BROKEN, MINIMAL, apt_get, reinstall_torn

MARGIN = 64 << 20  # bytes that have to stay free on the host's file systems

_NEEDED = re.compile(r"^'([^']*)' (\S+) (\d+)", re.M)
_FIELD = re.compile(r"^(Filename|Installed-Size|SHA256): (.*)$", re.M)


def stage(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Do one step: compare the bundle with the host, or write a part of a file.

    Args:
        request: `do`: `begin`, `begin-files` or `write`; `bundle`: the digest of the bundle's manifest, or of packages
            in files. For `begin`: `index`: the text of its Packages file; `names`: of the packages to install. For
            `begin-files`: `files`: the SHA-256 of each file by its name; `bytes`: their size together, and
            that of the installed packages. For `write`: `file`: its name; `at`: the number of bytes written before;
            `data`: the next bytes in base64; `sha256`: the digest of the whole file with its
            last bytes, before that empty.

    Returns:
        For `begin` and `begin-files`, `lacking`: names of the files that have to be copied. For `write`, nothing.

    Raises:
        ResourceFailed: the bundle lacks what the host needs, the disk has too little space, or a file is damaged.
        OSError: the file cannot be written.
    """
    if request["do"] == "begin":
        return {"lacking": begin(context, request["bundle"], request["index"], request["names"])}
    if request["do"] == "begin-files":
        return {"lacking": begin_files(context, request["bundle"], request["files"], request["bytes"])}
    place = context.path(bundle_place.place_of(request["bundle"]))
    path = os.path.join(place, bundle_place.checked_or_lent(request["file"]))
    write(path, request["at"], base64.b64decode(request["data"]), request["sha256"])
    return {}


def begin(context: Context, bundle: str, index: str, wanted: List[str]) -> List[str]:
    """The files of a bundle to copy, so that apt can install the wanted packages; raises as `stage`."""
    bundle_place.begin(context, bundle, index)
    code, output = apt_get(context, [*bundle_place.options(context, bundle), "update"])
    if code != 0:
        raise ResourceFailed("the bundle's index cannot be read: %s" % apt_errors.explain(output))
    names = [text.partition("=")[0] for text in wanted]
    states = dpkg_status.states(dpkg_status.read(context.root), names)
    # apt needs no file for a package that has its version already.
    is_there = {name for name, state in states.items() if state == "installed"}
    lacking = [text for text in wanted if text not in is_there]
    needed = {one.name: one.size for one in files_for(context, bundle_place.options(context, bundle), lacking)}
    known = {os.path.basename(one["Filename"]): one for one in map(fields, index.split("\n\n")) if "Filename" in one}
    return missing(context, bundle, [described(name, size, known.get(name, {})) for name, size in needed.items()])


def described(name: str, size: int, entry: Mapping[str, str]) -> Needed:
    """A package that apt needs, by its entry in the index."""
    return Needed(name, size, 1024 * int(entry.get("Installed-Size", 0)), entry.get("SHA256", ""))


class Needed(NamedTuple):
    """A package of a bundle that a host would install."""

    file: str  # the name of its file
    size: int  # bytes of the file
    installed: int  # bytes of the installed package
    sha256: str  # of the file


def missing(context: Context, bundle: str, needed: Sequence[Needed]) -> List[str]:
    """The files of needed packages that a bundle's directory does not have; ResourceFailed without room."""
    place = context.path(bundle_place.place_of(bundle))
    lacking = [one for one in needed if not has(place, bundle_place.checked(one.file), one.sha256)]
    refuse_without_room(context, sum(one.size for one in lacking), sum(one.installed for one in needed))
    return [one.file for one in lacking]


def begin_files(context: Context, digest: str, files: Mapping[str, str], sizes: Tuple[int, int]) -> List[str]:
    """The packages in files, SHA-256 by name, that have to be copied into root's directory for this digest.

    `sizes`: bytes of the files, and of the installed packages. Raises ResourceFailed without room, or for a wrong name.
    """
    place = bundle_place.make_alone(context, digest)
    os.makedirs(place, mode=0o700, exist_ok=True)
    os.chmod(place, 0o700)
    lacking = [name for name in files if not has(place, bundle_place.checked(name), files[name])]
    refuse_without_room(context, sizes[0] if lacking else 0, sizes[1])
    return lacking


def has(place: str, name: str, sha256: Optional[str]) -> bool:
    """Whether a directory has a file of this name with this digest."""
    path = os.path.join(place, name)
    return os.path.exists(path) and sha256_of(path) == sha256


class Fetched(NamedTuple):
    """A file that apt would fetch."""

    uri: str
    name: str
    size: int  # in bytes


def files_for(context: Context, source: Sequence[str], missing: List[str]) -> List[Fetched]:
    """What apt would fetch for packages, and interrupted ones; ResourceFailed if it cannot install them.

    `source`: options that name a bundle; empty for the host's package sources.
    """
    options = [*source, *MINIMAL, "--print-uris"]
    commands = [["install", "--", *missing]] if missing else []
    again: List[str] = []
    if dpkg_status.is_interrupted(context.root):
        # What an earlier run left half done is completed first.
        commands = [[*FIX_BROKEN], *(["--fix-broken", *one] for one in commands)]
        again = reinstall_torn(context)
    found: List[Fetched] = []
    for command in commands:
        code, output = apt_get(context, [*options, *command])
        if code != 0:
            why = apt_errors.explain(output).rstrip(".?")
            if not source:
                raise ResourceFailed(why)
            raise ResourceFailed(
                "the packages cannot be installed from the bundle: %s. If the bundle is older than the host's "
                "packages, make a new one: %s bundle" % (why, FAB)
            )
        found += needed_in(output)
    return found + needed_in(apt_get(context, [*options, *again])[1]) if again else found


def needed_in(output: str) -> List[Fetched]:
    """The files in what `apt-get --print-uris` printed."""
    return [Fetched(uri, bundle_place.checked(name), int(size)) for uri, name, size in _NEEDED.findall(output)]


def fields(paragraph: str) -> Dict[str, str]:
    """The fields of a package in the index that are needed here, by the names of deb-control(5)."""
    return dict(_FIELD.findall(paragraph))


def refuse_without_room(context: Context, brought: int, installed: int) -> None:
    """Refuse, by ResourceFailed with needed and free space, before copying, what has no room on the disk."""
    places = [(context.path(bundle_place.PLACE), brought), (context.path("/usr"), installed)]
    needed: Dict[int, int] = {}
    for path, size in places:
        device = os.stat(path).st_dev
        needed[device] = needed.get(device, 0) + size
    for path, size in places:
        total, space = needed[os.stat(path).st_dev], os.statvfs(path)
        free = space.f_bavail * space.f_frsize
        if size and free < total + MARGIN:
            raise ResourceFailed(
                "the disk is full: the packages need %d MiB below %s, and %d MiB are free there; free some space and "
                "run again" % ((total + MARGIN) >> 20, path, free >> 20)
            )


def write(path: str, at: int, data: bytes, sha256: str) -> None:
    """Write bytes of a file after `at` under a temporary name; the digest of the whole, with the last, renames it.

    Raises ResourceFailed if the digest differs; OSError if it cannot be written.
    """
    part = path + bundle_place.PART
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (0 if at else os.O_TRUNC)
    with os.fdopen(os.open(part, flags, 0o644), "wb") as file:
        os.fchmod(file.fileno(), 0o644)
        file.seek(at)
        file.write(data)
    if not sha256:
        return
    if sha256_of(part) != sha256:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise ResourceFailed("%s was damaged on the way; run the same command again" % os.path.basename(path))
    os.rename(part, path)
