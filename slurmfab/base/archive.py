"""Archives on the deployer, verified before anything is read from them: what backups and bundles have in common.

An archive is an uncompressed tar(5). After its parts comes a manifest with the size and the SHA-256 digest of each
part, and after that the signature of the manifest, if it is signed. `slurmfab.on_hosts.agent.backup.archive` writes
archives.

No archive takes long to refuse: headers and manifest are read first, and only what has the size that the manifest says,
and that a part of this name may have, is read as a whole.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Generic, NamedTuple, TypeVar

from slurmfab import __version__
from slurmfab.base import signatures, strict_json
from slurmfab.base.answers import STRICT_BUT_OPEN, Count, Digest, Phrase
from slurmfab.base.bounded_file import without_waiting
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.signatures import Seal
from slurmfab.on_hosts.agent.backup.archive import FORMAT, MANIFEST, SIGNATURE, BoundedHeader
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

if TYPE_CHECKING:
    from pydantic import ConfigDict

Result = TypeVar("Result")
Value = TypeVar("Value", int, str)

UNREADABLE = (tarfile.TarError, EOFError, ValueError, RecursionError)  # what reading a damaged archive can raise
MAX_MANIFEST_SIZE = 16 << 20  # bytes of the largest manifest; one with the ids of 1,000,000 jobs is smaller

OWN_SIZES = {MANIFEST: MAX_MANIFEST_SIZE, SIGNATURE: signatures.MOST_BYTES}
"""The size of the largest member that is no part, by its name."""

MAX_WHOLE_SIZE = 64 << 20
"""Bytes of the largest part that is read as a whole: a lock, of which most hosts' entries have less than 1 KiB."""

MOST_PARTS = 10_000  # the most parts; a bundle has some 200 packages
HASH_PIECE = 1 << 20  # bytes that are read and hashed at a time


class Piece(NamedTuple):
    """Some bytes of a part, and where in the part they begin."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Part:
    """One member of an archive."""

    size: int  # in bytes, as stored
    sha256: str  # hexadecimal digest of the stored bytes
    offset: int  # where its bytes begin in the archive
    path: Path

    def read(self) -> bytes:
        """The whole part, as verified; InputError above `MAX_WHOLE_SIZE`, or if the archive has changed since."""
        if self.size > MAX_WHOLE_SIZE:
            raise InputError(f"{self.path}: a file in it has {self.size} bytes; at most {MAX_WHOLE_SIZE} are allowed.")
        with open(self.path, "rb", opener=without_waiting) as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise InputError(f"{self.path} was changed while it was read. Nothing was changed; run again.")
        return data

    def pieces(self, size: int, advice: str) -> Iterator[Piece]:
        """The part in pieces of `size` bytes, each read when asked for; InputError, with `advice`, if it has changed.

        The archive is opened again, and so may be another one by now: the last piece comes only if all are as verified.
        """
        done, found = 0, hashlib.sha256()
        with open(self.path, "rb", opener=without_waiting) as file:
            file.seek(self.offset)
            while done < self.size:
                data = file.read(min(size, self.size - done))
                if not data:
                    raise InputError(f"{self.path} became shorter while it was read. {advice}")
                found.update(data)
                if done + len(data) == self.size and found.hexdigest() != self.sha256:
                    raise InputError(f"{self.path} was changed while it was read. {advice}")
                yield Piece(done, data)
                done += len(data)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """A context with the archive as a file at the part's beginning; InputError if the part has changed."""
        with open(self.path, "rb", opener=without_waiting) as file:
            if sha256_of(file, self.offset, self.size) != self.sha256:
                raise InputError(f"{self.path} was changed while it was read. Nothing was changed; run again.")
            file.seek(self.offset)
            yield file


@dataclass(frozen=True)
class ListedPart:
    """What a manifest says about a part: its size in bytes, and its SHA-256 in hexadecimal digits."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    size: Count
    sha256: Digest


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What every manifest says."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    format: int
    kind: str = "backup"  # `backup` or `bundle`; a manifest without a kind is a backup's
    made: datetime  # when the archive was made
    by: Phrase  # who made it, as `USER@HOST`
    parts: Mapping[str, ListedPart]  # all other members, by name


OneManifest = TypeVar("OneManifest", bound=Manifest)


@dataclass(frozen=True)
class Kind(Generic[OneManifest]):
    """A kind of archive: backup or bundle."""

    name: str  # `backup` or `bundle`, as manifests have it
    manifest: type[OneManifest]
    remedy: str  # what the user can do if an archive is damaged
    # whether an archive of this kind may hold a part of this name; it may raise `ResourceFailed` instead
    is_part: Callable[[str], bool]
    most_bytes: Callable[[str], int]

    def damaged(self, path: Path, reason: str) -> InputError:
        """The error for an archive that is damaged. `reason`: what is wrong with it."""
        return InputError(f"{path}: {reason}. Nothing was changed; {self.remedy}.")


@dataclass(frozen=True)
class Contents(Generic[OneManifest]):
    """The contents of an archive that matches its manifest."""

    path: Path
    digest: str  # SHA-256 of the manifest, which tells this archive from others
    manifest: OneManifest
    parts: Mapping[str, Part]  # all members but the manifest and its signature, by name
    seal: Seal  # the manifest's bytes and their signature, which nobody has verified yet

    @property
    def made(self) -> str:
        """When the archive was made, in ISO 8601 with a space."""
        return self.manifest.made.isoformat(sep=" ", timespec="seconds")


def origin(when: datetime) -> dict[str, str]:
    """When (the start of the run), by whom and by which slurmfab an archive is made: values of a manifest."""
    by = f"{getpass.getuser()}@{socket.gethostname()}"
    return {"made": when.isoformat(timespec="seconds"), "by": by, "slurmfab": __version__}


def verified(path: Path, kind: Kind[OneManifest], build: Callable[[Contents[OneManifest], BinaryIO], Result]) -> Result:
    """Compare every byte of an archive with its manifest, and `build` a value from its contents and the open file.

    Raises OSError, or InputError if it is damaged (also by `UNREADABLE` errors of `build`), of another kind, or newer.
    """
    try:
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise kind.damaged(path, "it is not a regular file")
            return build(contents_of(path, file, kind), file)
    except BrokenFile as error:
        raise kind.damaged(path, f"its {error.where} is damaged: {error.reason}") from error
    except UNREADABLE as error:
        raise kind.damaged(path, f"it is not a {kind.name} made by slurmfab, or it is incomplete ({error})") from error
    except ResourceFailed as error:
        raise kind.damaged(path, str(error)) from error


def contents_of(path: Path, file: BinaryIO, kind: Kind[OneManifest]) -> Contents[OneManifest]:
    """The contents of an open archive, once they are known to match the manifest. Raises InputError: see `verified`."""
    members = members_of(path, file, kind)
    if MANIFEST not in members:
        raise kind.damaged(path, f"there is no {MANIFEST} in it, so it is incomplete")
    seal = seal_from(members, file)
    data = seal.data
    manifest = manifest_from(data, path, kind)
    wrong = altered(manifest, {name: one.size for name, one in members.items()}, lambda listed: listed.size)
    digests = {} if wrong else {name: sha256_of(file, one.offset_data, one.size) for name, one in members.items()}
    wrong = wrong or altered(manifest, digests, lambda listed: listed.sha256)
    if wrong:
        raise kind.damaged(path, f"its content does not match the manifest: {', '.join(wrong[:4])}")
    parts = {name: Part(one.size, digests[name], one.offset_data, path) for name, one in members.items()}
    return Contents(path, hashlib.sha256(data).hexdigest(), manifest, parts, seal)


def seal_from(members: dict[str, tarfile.TarInfo], file: BinaryIO) -> Seal:
    """The manifest of an open archive with its signature; both are taken out of its members."""

    def content(name: str) -> bytes:
        member = members.pop(name)
        file.seek(member.offset_data)
        return file.read(member.size)

    return Seal(content(MANIFEST), content(SIGNATURE) if SIGNATURE in members else b"")


def seal_of(path: Path, kind: Kind[OneManifest]) -> Seal:
    """The manifest of an archive with its signature, without its parts; InputError as `verified`, or OSError."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            members = members_of(path, file, kind)
            if MANIFEST not in members:
                raise kind.damaged(path, f"there is no {MANIFEST} in it, so it is incomplete")
            return seal_from(members, file)
    except UNREADABLE as error:
        raise kind.damaged(path, f"it is not a {kind.name} made by slurmfab, or it is incomplete ({error})") from error


def members_of(path: Path, file: BinaryIO, kind: Kind[OneManifest]) -> dict[str, tarfile.TarInfo]:
    """The headers of an archive's members by name; InputError if one is double, foreign or too large."""
    found: dict[str, tarfile.TarInfo] = {}
    end = os.fstat(file.fileno()).st_size
    with tarfile.open(fileobj=file, mode="r:", tarinfo=BoundedHeader) as tar:
        for member in tar:
            name = member.name
            if not member.isreg() or name in found or not (name in OWN_SIZES or kind.is_part(name)):
                raise kind.damaged(path, f"{name[:80]!r} does not belong into it")
            most = OWN_SIZES[name] if name in OWN_SIZES else kind.most_bytes(name)
            if member.size > most:
                raise kind.damaged(path, f"{name} in it has {format_size(member.size)}, more than {format_size(most)}")
            if member.offset_data + member.size > end:
                raise kind.damaged(path, f"it is incomplete: it ends within {name}")
            if len(found) > MOST_PARTS:
                raise kind.damaged(path, f"it holds more than {MOST_PARTS} files")
            found[name] = member
    return found


def manifest_from(data: bytes, path: Path, kind: Kind[OneManifest]) -> OneManifest:
    """The manifest in the bytes of its part; InputError if it is damaged, of another kind, or of a newer slurmfab."""
    plain = strict_json.parse(data, MANIFEST)
    if not isinstance(plain, dict) or plain.get("kind", "backup") != kind.name:
        raise kind.damaged(path, f"it is not a {kind.name} made by slurmfab")
    if type(plain.get("format")) is int and plain["format"] > FORMAT:
        raise InputError(
            f"{path} was made by a newer slurmfab (format {str(plain['format'])[:20]}, this one knows {FORMAT})."
        )
    from pydantic import TypeAdapter

    return strict_json.checked(data, MANIFEST, TypeAdapter(kind.manifest))


def sha256_of(file: BinaryIO, offset: int, left: int) -> str:
    """The SHA-256 of so many bytes of an open archive, in hexadecimal digits."""
    digest = hashlib.sha256()
    file.seek(offset)
    while left and (piece := file.read(min(HASH_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()


def altered(manifest: Manifest, found: Mapping[str, Value], listed: Callable[[ListedPart], Value]) -> list[str]:
    """The names, sorted, of parts whose sizes or digests differ from the manifest, or that one of both lacks."""
    wanted: dict[str, Value] = {name: listed(part) for name, part in manifest.parts.items()}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def print_descriptions(paths: Iterable[Path], describe: Callable[[Path], str]) -> int:
    """Print a description of each archive, or what is wrong with it; 1 if one of them is missing or damaged, else 0."""
    code = 0
    for path in paths:
        try:
            print(describe(path))  # noqa: T201 - the output of the command
        except InputError as error:
            print(error)  # noqa: T201 - the output of the command
            code = 1
    return code


def format_size(size: float) -> str:
    """A number of bytes with a unit.

    >>> format_size(70_000), format_size(5 * 1024**4)
    ('68 KiB', '5.0 TiB')
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004 - the next unit
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB" if size < 1024 else f"{size / 1024:.1f} TiB"  # noqa: PLR2004
