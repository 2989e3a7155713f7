"""Parts of a backup on the host that they are to be restored on: brought there whole before anything is replaced.

    /var/lib/slurmfab/restoring/BACKUP/state.tar.gz ...         root's alone, like all that is kept for an undo
    /var/lib/slurmfab/restoring/BACKUP/state.tar.gz.done        says that it has been put in its place

BACKUP is the digest of the backup's manifest. So a restoration that was cut off goes on where it was, and one of
another backup begins anew.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from typing import Any, Mapping

from slurmfab.agent import replace
from slurmfab.agent.reading import names, read_text
from slurmfab.agent.resource import Context, ResourceFailed

RESTORING = "/var/lib/slurmfab/restoring"
DONE = ".done"
_BACKUP = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z][a-z.-]{0,39}")


def stage(request: Mapping[str, Any], context: Context) -> None:
    """Do one step of it.

    Args:
        request: `do`: `begin` (what is there of other backups goes), `write` or `clear`. `backup`: its digest. To
            write: `name` of the part, `at`: how many bytes were written before, `data`: the next ones in base64.
        context: knows where.

    Raises:
        ResourceFailed: the request makes no sense.
        OSError: the disk is full or the like.
    """
    if not _BACKUP.fullmatch(request["backup"]):
        raise ResourceFailed("this is no digest of a backup")
    if request["do"] == "begin":
        begin(context, request["backup"])
    elif request["do"] == "write":
        write(context, staged(request["backup"], request["name"]), request["at"], base64.b64decode(request["data"]))
    else:
        shutil.rmtree(context.path(RESTORING), ignore_errors=True)


def staged(backup: str, name: str) -> str:
    """Where a part lies.

    Raises:
        ResourceFailed: no part has this name.
    """
    if not _NAME.fullmatch(name):
        raise ResourceFailed("%r is no name of a part" % name[:80])
    return "%s/%s/%s" % (RESTORING, backup, name)


def begin(context: Context, backup: str) -> None:
    """Make the directory of a backup, and remove those of others."""
    base = context.path(RESTORING)
    parent = os.path.dirname(base)
    os.makedirs(os.path.dirname(parent), exist_ok=True)
    for path, mode in ((parent, 0o755), (base, 0o700), (os.path.join(base, backup), 0o700)):
        if not os.path.isdir(path):
            os.mkdir(path, mode)
    replace.change_access(base, os.geteuid(), os.getegid(), 0o700, is_directory=True)
    for name in names(base):
        if name != backup:
            shutil.rmtree(os.path.join(base, name))


def write(context: Context, place: str, at: int, data: bytes) -> None:
    """Write the next bytes of a part; the first ones replace what a run that was cut off has left."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (0 if at else os.O_TRUNC)
    descriptor = os.open(context.path(place), flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(at)
        file.write(data)


def require(context: Context, place: str, sha256: str) -> None:
    """See that a part came as it was sent.

    Raises:
        ResourceFailed: it did not.
    """
    digest = hashlib.sha256()
    try:
        with open(context.path(place), "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
    except OSError as error:
        raise ResourceFailed("%s cannot be read: %s" % (place, error.strerror)) from error
    if digest.hexdigest() != sha256:
        raise ResourceFailed("%s is not what was sent; run the same command again" % place)


def is_done(context: Context, place: str, sha256: str) -> bool:
    """Whether the part has been put in its place by this restoration, or by one that was cut off."""
    return read_text(context.path(place) + DONE).strip() == sha256


def done(context: Context, place: str, sha256: str) -> None:
    """Note that a part has been put in its place."""
    replace.put(context.path(place) + DONE, sha256.encode(), os.geteuid(), os.getegid(), 0o600)
