"""Parts of a backup on the host to be restored: each is sent completely before anything is replaced.

    /var/lib/slurmfab/restoring/BACKUP/state.tar.gz ...         readable for root only
    /var/lib/slurmfab/restoring/BACKUP/state.tar.gz.done        exists after the part was restored

BACKUP is the digest of the backup's manifest. So an interrupted restoration continues, and one of another backup starts
from the beginning.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
from typing import Any, Mapping

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.reading import names, read_text, sha256_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

RESTORING = "/var/lib/slurmfab/restoring"
DONE_SUFFIX = ".done"
_BACKUP = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z][a-z.-]{0,39}")


def stage(request: Mapping[str, Any], context: Context) -> None:
    """Do one step of sending a backup.

    Args:
        request: `do`: `begin` (removes parts of other backups), `write` or `clear`. `backup`: its digest. For `write`:
            `name` of the part, `at`: number of bytes written before, `data`: the next bytes in base64.

    Raises:
        ResourceFailed: the request is invalid.
        OSError: a file cannot be written, such as on a full disk.
    """
    if not _BACKUP.fullmatch(request["backup"]):
        raise ResourceFailed("%r is not the digest of a backup" % str(request["backup"])[:80])
    if request["do"] == "begin":
        begin(context, request["backup"])
    elif request["do"] == "write":
        write(context, staged(request["backup"], request["name"]), request["at"], base64.b64decode(request["data"]))
    else:
        shutil.rmtree(context.path(RESTORING), ignore_errors=True)


def staged(backup: str, name: str) -> str:
    """The path of a part. Raises ResourceFailed if the name is not valid for a part."""
    if not _NAME.fullmatch(name):
        raise ResourceFailed("%r is not the name of a part" % name[:80])
    return "%s/%s/%s" % (RESTORING, backup, name)


def begin(context: Context, backup: str) -> None:
    """Create a backup's directory, and remove those of other backups."""
    base = context.path(RESTORING)
    for path in (base, os.path.join(base, backup)):
        replace.make_directory(path, os.geteuid(), os.getegid(), 0o700)
    for name in names(base):
        if name != backup:
            shutil.rmtree(os.path.join(base, name))


def write(context: Context, place: str, at: int, data: bytes) -> None:
    """Write the next bytes of a part; at position 0 the file is truncated first. `at`: position of the bytes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (0 if at else os.O_TRUNC)
    descriptor = os.open(context.path(place), flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(at)
        file.write(data)


def require(context: Context, place: str, sha256: str) -> None:
    """Check that a part has the digest that it was sent with; ResourceFailed if it differs or is missing."""
    try:
        digest = sha256_of(context.path(place))
    except OSError as error:
        raise ResourceFailed("%s cannot be read: %s" % (place, error.strerror)) from error
    if digest != sha256:
        raise ResourceFailed("%s differs from what was sent; run the same command again" % place)


def is_done(context: Context, place: str, sha256: str) -> bool:
    """Whether the part was restored, now or by a restoration that was interrupted later."""
    return read_text(context.path(place) + DONE_SUFFIX).strip() == sha256


def mark_done(context: Context, place: str, sha256: str) -> None:
    """Record that a part was restored."""
    replace.put(context.path(place) + DONE_SUFFIX, sha256.encode(), os.geteuid(), os.getegid(), 0o600)
