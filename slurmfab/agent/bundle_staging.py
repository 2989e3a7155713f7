"""Bringing packages of a bundle to a host that lacks them: only those, and each whole or not at all.

{"op": "bundle", "do": "begin", "bundle": ..., "index": ..., "names": [...]}   -> {"bundle": {"lacking": [...]}}
{"op": "bundle", "do": "write", "bundle": ..., "file": ..., "at": 0, "data": "<base64>", "sha256": ""}
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from slurmfab.agent import apt_words, bundle_place
from slurmfab.agent.packages import SPARING, apt_get, is_interrupted, package_states, reinstalling, torn_packages
from slurmfab.agent.reading import read_bytes
from slurmfab.agent.resource import Context, ResourceFailed

MARGIN = 64 << 20
"""Bytes that stay free on the host's file systems."""

_NEEDED = re.compile(r"^'[^']*' (\S+) (\d+)", re.M)
_FIELD = re.compile(r"^(Filename|Installed-Size|SHA256): (.*)$", re.M)


def stage(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Do one step of it.

    Args:
        request: `do`: `begin` or `write`; `bundle`: the digest of its manifest. To begin: `index`, the text of its
            Packages file, and `names` of the packages that shall be installed. To write: `file`, `at`: how many bytes
            were written before, `data`: the next ones in base64, `sha256`: of all of them, with the last ones.
        context: knows where.

    Returns:
        After `begin`, `lacking`: names of the files that have to be brought.

    Raises:
        ResourceFailed: the bundle has not what the host needs, there is no room for it, or it came damaged.
        OSError: the disk is full or the like.
    """
    if request["do"] == "begin":
        return {"lacking": begin(context, request["bundle"], request["index"], request["names"])}
    place = context.path(bundle_place.place_of(request["bundle"]))
    path = os.path.join(place, bundle_place.checked(request["file"]))
    write(path, request["at"], base64.b64decode(request["data"]), request["sha256"])
    return {}


def begin(context: Context, bundle: str, index: str, wanted: Iterable[str]) -> List[str]:
    """Find out which of a bundle's files have to be brought for these packages, as apt would install them."""
    place = bundle_place.begin(context, bundle, index)
    code, output = apt_get(context, [*bundle_place.options(context, bundle), "update"])
    if code != 0:
        raise ResourceFailed("the bundle's index cannot be read: %s" % apt_words.explain(output))
    states = package_states(tuple(wanted), read_bytes(context.path("/var/lib/dpkg/status")))
    missing = [name for name in wanted if states.get(name) != "installed"]
    needed = dict(files_for(context, bundle, missing))
    known = {os.path.basename(one["Filename"]): one for one in map(fields, index.split("\n\n")) if "Filename" in one}
    lacking = [name for name in needed if sha256_of(os.path.join(place, name)) != known.get(name, {}).get("SHA256")]
    installed = sum(1024 * int(known.get(name, {}).get("Installed-Size", 0)) for name in needed)
    refuse_without_room(context, sum(needed[name] for name in lacking), installed)
    return lacking


def files_for(context: Context, bundle: str, missing: List[str]) -> List[Tuple[str, int]]:
    """The files that apt would take from a bundle to install packages, with their sizes.

    Raises:
        ResourceFailed: it cannot install them from there.
    """
    words = [*bundle_place.options(context, bundle), *SPARING, "--print-uris"]
    asked = [["install", "--", *missing]] if missing else []
    torn: List[str] = []
    if is_interrupted(context):
        # What an earlier run has left half done is completed first.
        asked = [["--fix-broken", "install"], *(["--fix-broken", *one] for one in asked)]
        torn = torn_packages(read_bytes(context.path("/var/lib/dpkg/status")))
    found: List[Tuple[str, int]] = []
    for one in asked:
        code, output = apt_get(context, [*words, *one])
        if code != 0:
            raise ResourceFailed(
                "the packages cannot be installed from the bundle: %s. One that is older than the host has to be made "
                "anew: fab bundle" % apt_words.explain(output).rstrip(".?")
            )
        found += needed_in(output)
    return found + needed_in(apt_get(context, [*words, *reinstalling(torn)])[1]) if torn else found


def needed_in(output: str) -> List[Tuple[str, int]]:
    """The files that apt says it would take, with their sizes."""
    return [(bundle_place.checked(name), int(size)) for name, size in _NEEDED.findall(output)]


def fields(paragraph: str) -> Dict[str, str]:
    """What the index says of one package's file, by the names of deb-control(5)."""
    return dict(_FIELD.findall(paragraph))


def sha256_of(path: str) -> str:
    """The digest of a file that an interrupted run has brought; empty where there is none."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()


def refuse_without_room(context: Context, brought: int, installed: int) -> None:
    """See that there is room for packages before any is brought.

    Args:
        context: knows where.
        brought: bytes of their files.
        installed: bytes that they take when they are installed.

    Raises:
        ResourceFailed: there is not.
    """
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
    """Write the next bytes of a file; it has its name when all are there and are those that were sent.

    Raises:
        ResourceFailed: they are not.
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
        raise ResourceFailed("%s is not what was sent; run the same command again" % os.path.basename(path))
    os.rename(part, path)
