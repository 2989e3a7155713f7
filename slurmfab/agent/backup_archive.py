"""The file that a backup is: an uncompressed tar(5) of compressed parts, and last of all a manifest of them.

The deployer writes such files, and so does a host whose timer makes backups. Parts come as they are read, of any
length: the header of each is written when its length is known. Nobody but the owner may read the file at any moment,
and it has its name only when it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import tarfile
import time
from typing import Any, Dict, Mapping, Optional

from slurmfab.agent.replace import sync

FORMAT = 1
"""The version of the format, as the manifest has it."""

MANIFEST = "manifest.json"
STATE, FILES, DATABASE, KEY = "state.tar.gz", "etc-slurm.tar.gz", "database.sql.gz", "munge.key"
DATABASE_FILES = "etc-slurm-of-database.tar.gz"
"""/etc/slurm of slurmdbd's host, where that is another one than the controller."""

CLUSTER_FILE, LOCK = "cluster.yaml", "cluster.lock.json"

SUFFIX = ".tar"
NEW = ".new-"
"""How the name of a file begins that is not whole yet, or never became so."""

BLOCK = tarfile.BLOCKSIZE


class Archive:
    """An archive that is being written.

    Args:
        directory: where it will be; nobody but the owner may look into it.
        name: the file's name there, without its ending.
        suffix: its ending.
    """

    def __init__(self, directory: str, name: str, suffix: str = SUFFIX) -> None:
        self.directory = directory
        self.name = name
        self.suffix = suffix
        self.parts: Dict[str, Dict[str, Any]] = {}
        self.new = os.path.join(directory, "%s%s.%s" % (NEW, name, os.urandom(4).hex()))
        descriptor = os.open(self.new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self.file = os.fdopen(descriptor, "wb")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.header = 0
        self.begun = time.time()
        self.digest = hashlib.sha256()

    def begin(self) -> None:
        """Begin a part."""
        self.header = self.file.tell()
        self.file.write(bytes(BLOCK))
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Go on with the part that was begun."""
        self.digest.update(data)
        self.file.write(data)

    def end(self, name: str, about: Optional[Mapping[str, Any]] = None) -> None:
        """Give the part that was begun its name.

        Args:
            name: of the part.
            about: what the manifest says of it besides length and digest.
        """
        end = self.file.tell()
        size = end - self.header - BLOCK
        self.file.write(bytes(-size % BLOCK))
        after = self.file.tell()
        self.file.seek(self.header)
        self.file.write(header(name, size, self.begun))
        self.file.seek(after)
        self.parts[name] = {"size": size, "sha256": self.digest.hexdigest(), **(about or {})}

    def drop(self) -> None:
        """Forget the part that was begun."""
        self.file.seek(self.header)
        self.file.truncate()

    def add(self, name: str, data: bytes, about: Optional[Mapping[str, Any]] = None) -> None:
        """Add a part that is there as a whole."""
        self.begin()
        self.write(data)
        self.end(name, about)

    def finish(self, about: Mapping[str, Any]) -> str:
        """Write the manifest, and give the file its name; another one of this name is left alone.

        Args:
            about: what the manifest says besides the parts.

        Returns:
            The file's path.
        """
        manifest = {"format": FORMAT, **about, "parts": dict(self.parts)}
        self.add(MANIFEST, json.dumps(manifest, indent=1).encode("ascii"))
        self.file.write(bytes(2 * BLOCK))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        number = 1
        while True:
            name = self.name if number == 1 else "%s-%d" % (self.name, number)
            path = os.path.join(self.directory, name + self.suffix)
            try:
                take_name(self.new, path)
            except FileExistsError:
                number += 1
                continue
            sync(self.directory)
            return path

    def abandon(self) -> None:
        """Leave nothing of it, unless it was finished."""
        self.file.close()
        if os.path.lexists(self.new):
            os.unlink(self.new)


def take_name(new: str, path: str) -> None:
    """Rename a file, unless there is one of that name.

    Raises:
        FileExistsError: there is one.
    """
    try:
        os.link(new, path)
        os.unlink(new)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # Some file systems have no second names.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
        os.rename(new, path)


def sweep(directory: str, beginning: str = NEW) -> None:
    """Remove what writers have left that were killed; those that are at work hold a lock on their file (flock(2)).

    Args:
        directory: where.
        beginning: how the names of such files begin.
    """
    for name in os.listdir(directory):
        if name.startswith(beginning):
            with contextlib.suppress(OSError), open(os.path.join(directory, name), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(file.name)


def header(name: str, size: int, when: float) -> bytes:
    """The tar header of a part: one block, whatever its length (GNU tar's way with more than 8 GiB)."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(when), 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def stamp(seconds: float) -> str:
    """A time in UTC as names of backups have it, such as `20261121T143200Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
