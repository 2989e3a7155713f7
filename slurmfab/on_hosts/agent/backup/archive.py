"""The file format of a backup: an uncompressed tar(5) of compressed parts, with a manifest as the last member.

The deployer writes such files, and so does a host whose timer makes backups. The length of a part is known only after
it was read, so its header is written last. Only the owner can read the file at any time, and the file gets its name
only when it is complete.

With recipients, each part is encrypted to them by age(1), and the manifest and its signature are not. The manifest has
the digests of the encrypted parts, and the signature is made after the encryption: so who made an archive, and whether
it is whole, is known to everybody who has it, before anything is decrypted.
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
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from slurmfab.on_hosts.agent.backup import encryption
from slurmfab.on_hosts.agent.backup.encryption import AgeProcess
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import FILE_FLAGS, Folder, Opened, at, open_folder

FORMAT = 1  # version of the format, stored in the manifest

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
"""The signature of the manifest, after it; not there in an archive that nobody has signed."""

STATE, FILES, DATABASE, KEY = "state.tar.gz", "etc-slurm.tar.gz", "database.sql.gz", "munge.key"
DATABASE_FILES = "etc-slurm-of-database.tar.gz"  # /etc/slurm of slurmdbd's host, if that is not the controller

CLUSTER_FILE, LOCK = "cluster.yaml", "cluster.lock.json"

SUFFIX = ".tar"
UNFINISHED = ".new-"  # prefix of the names of files that are not complete

BLOCK = tarfile.BLOCKSIZE
PIECE = 1 << 20

MOST_HEADER_BYTES = 64 * 1024  # size of the largest extended header of a tar that is read; names and owners fit in

MOST_UNPACKED_AT_LEAST, MOST_RATIO = 256 << 20, 200
"""What a compressed part may become: 256 MiB, and 200 times its own size. Tar headers, texts and zeros of a real state
or database become a tenth to a fiftieth; nothing but zeros become a thousandth."""

_EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip


class BoundedHeader(tarfile.TarInfo):
    """A header of a tar that comes from elsewhere; for `tarfile.open(tarinfo=...)`.

    tarfile reads extended headers into memory, however large they say they are, and expands sparse files, which say
    how large they become. Both are refused; no archive of slurmfab has them. `_proc_member` is where tarfile lets
    subclasses judge a header before anything else is read.
    """

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        """Process a header, if it may be. Raises tarfile.ReadError if it is refused."""
        too_long = self.type in _EXTENDED and self.size > MOST_HEADER_BYTES
        # Python before 3.14 reads a tar with a negative size in circles.
        if self.size < 0 or self.type == tarfile.GNUTYPE_SPARSE or too_long:
            raise tarfile.ReadError("a header of it is not like those of a backup or bundle")
        return super()._proc_member(tar)  # type: ignore[misc]

    def _refuse_sparse(self, *_: Any) -> None:
        """Refuse a sparse file in the newer formats, which extended headers announce."""
        raise tarfile.ReadError("a file in it is sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def unpacked_most(packed: int) -> int:
    """The most bytes that a compressed part of so many bytes may become."""
    return MOST_UNPACKED_AT_LEAST + MOST_RATIO * packed


class Archive:
    """A backup file that is being written in its owner's directory, encrypted to recipients if there are any.

    `directory`: also open, and closed with the archive then.
    """

    def __init__(
        self, directory: Union[str, Folder], name: str, suffix: str = SUFFIX, recipients: Sequence[str] = ()
    ) -> None:
        self.folder = open_folder(os.path.abspath(directory)) if isinstance(directory, str) else directory
        self.recipients = tuple(recipients)
        self.name = name
        self.suffix = suffix
        self.parts: Dict[str, Dict[str, Any]] = {}
        self.new = "%s%s.%s" % (UNFINISHED, name, os.urandom(4).hex())
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | FILE_FLAGS
        try:
            descriptor = os.open(self.new, flags, 0o600, dir_fd=self.folder.descriptor)
        except OSError as error:
            self.folder.close()
            raise at(error, self.folder.place(self.new)) from None
        self.file = os.fdopen(descriptor, "w+b")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.header = 0
        self.begun = time.time()
        self.digest = hashlib.sha256()
        self.age: Optional[AgeProcess] = None

    def begin(self, command: Sequence[str] = ()) -> None:
        """Begin a part through age with this command: by default it encrypts to the recipients, if there are any."""
        self.header = self.file.tell()
        self.file.write(bytes(BLOCK))
        self.digest = hashlib.sha256()
        through = command or encryption.encrypting(self.recipients)
        if through:
            self.file.flush()
            self.age = AgeProcess(through, self.file.fileno())

    def write(self, data: bytes) -> None:
        """Append bytes to the present part."""
        if self.age:
            self.age.write(data)
            return
        self.digest.update(data)
        self.file.write(data)

    def end(self, name: str, about: Optional[Mapping[str, Any]] = None) -> None:
        """Complete the present part."""
        if self.age:
            self.age.end()
            self.age = None
            self.file.seek(self.header + BLOCK)
            for piece in iter(lambda: self.file.read(PIECE), b""):
                self.digest.update(piece)
        name += encryption.SUFFIX if self.recipients else ""
        end = self.file.tell()
        size = end - self.header - BLOCK
        self.file.write(bytes(-size % BLOCK))
        after = self.file.tell()
        self.file.seek(self.header)
        self.file.write(header(name, size, self.begun))
        self.file.seek(after)
        self.parts[name] = {"size": size, "sha256": self.digest.hexdigest(), **(about or {})}

    def drop(self) -> None:
        """Discard the present part."""
        self.stop()
        self.file.seek(self.header)
        self.file.truncate()

    def add(self, name: str, data: bytes, about: Optional[Mapping[str, Any]] = None) -> None:
        """Add a part whose content is in memory."""
        self.begin()
        self.write(data)
        self.end(name, about)

    def finish(
        self,
        about: Mapping[str, Any],
        sign: Optional[Callable[[bytes], bytes]] = None,
        over: str = "",
        mode: int = 0o600,
    ) -> str:
        """Write and sign the manifest, and name the file, with a number if the name is taken; its path.

        `over`: another name for it, also in place of an earlier file. `mode`: its permission bits from then on.
        """
        encrypted = {"encrypted_to": list(self.recipients)} if self.recipients else {}
        manifest = {"format": FORMAT, **about, **encrypted, "parts": dict(self.parts)}
        self.recipients = ()
        content = json.dumps(manifest, indent=1).encode("ascii")
        self.add(MANIFEST, content)
        signature = sign(content) if sign else b""
        if signature:
            self.add(SIGNATURE, signature)
        self.file.write(bytes(2 * BLOCK))
        self.file.flush()
        os.fchmod(self.file.fileno(), mode)
        os.fsync(self.file.fileno())
        name, number = over or self.name + self.suffix, 1
        if over:
            self.folder.rename(self.new, over)
        while not over:
            try:
                self.folder.take_name(self.new, name)
                break
            except FileExistsError:
                number += 1
                name = "%s-%d%s" % (self.name, number, self.suffix)
        named, path = self.folder.find(name), self.folder.place(name)
        if named is None or not os.path.samestat(named, os.fstat(self.file.fileno())):
            raise OSError(errno.ESTALE, "somebody has put another file in its place", path)
        self.folder.sync()
        self.file.close()
        self.folder.close()
        return path

    def abandon(self) -> None:
        """Remove the file, unless it was finished."""
        self.stop()
        if not self.file.closed:
            self.file.close()
            self.folder.unlink(self.new)
            self.folder.close()

    def stop(self) -> None:
        """End the program that the present part goes through, if there is one."""
        if self.age:
            self.age.stop()
            self.age = None


def sweep(directory: str) -> None:
    """Remove unfinished archives of killed processes from a directory."""
    with open_folder(os.path.abspath(directory)) as folder:
        sweep_in(folder)


def sweep_in(folder: Folder, beginning: str = UNFINISHED) -> None:
    """Remove unfinished files so named of killed processes; running ones hold locks (flock(2))."""
    for name in folder.names():
        if name.startswith(beginning):
            with contextlib.suppress(OSError, ResourceFailed):
                descriptor = folder.open(name)
                if descriptor is not None:
                    with Opened(descriptor):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        folder.unlink(name)


def header(name: str, size: int, when: float) -> bytes:
    """The tar header of a part: one block for any size (GNU format for more than 8 GiB). `when`: seconds since 1970."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(when), 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def stamp(seconds: float) -> str:
    """A time in UTC as in names of backups, such as `20261121T143200Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
