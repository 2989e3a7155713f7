"""Archives on the deployer, verified before anything is read from them: what backups and bundles have in common.

An archive is an uncompressed tar(5). Its last member is a manifest with the size and the SHA-256 digest of each other
member. `slurmfab.agent.backup.archive` writes archives.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import socket
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from slurmfab import __version__
from slurmfab.agent.backup.archive import FORMAT, MANIFEST, BoundedHeader
from slurmfab.agent.core.resource import ResourceFailed
from slurmfab.errors import InputError

Result = TypeVar("Result")

UNREADABLE = (tarfile.TarError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a damaged archive, or a manifest with other values than expected, can raise."""

MAX_WHOLE_SIZE = 16 * 1024 * 1024
"""Bytes of the largest part that is read as a whole; a manifest with the ids of 100,000 jobs is smaller."""

HASH_PIECE = 1 << 20
"""Bytes that are read and hashed at a time."""


class Piece(NamedTuple):
    """Some bytes of a part, and where in the part they begin."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Part:
    """One member of an archive.

    Args:
        size: in bytes, as stored.
        sha256: hexadecimal digest of the stored bytes.
        offset: where its bytes begin in the archive.
        path: the archive.
    """

    size: int
    sha256: str
    offset: int
    path: Path

    def read(self) -> bytes:
        """The whole part, the same bytes that were verified.

        Raises:
            InputError: it is larger than `MAX_WHOLE_SIZE`, or the archive has changed since it was verified.
        """
        if self.size > MAX_WHOLE_SIZE:
            raise InputError(f"{self.path}: a file in it has {self.size} bytes; at most {MAX_WHOLE_SIZE} are allowed.")
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise InputError(f"{self.path} was changed while it was read. Nothing was changed; run again.")
        return data

    def pieces(self, size: int, advice: str) -> Iterator[Piece]:
        """The part in pieces, each read when it is asked for.

        Args:
            size: bytes of a piece.
            advice: the end of the message if the archive has become shorter since it was verified.

        Raises:
            InputError: the archive has become shorter.
        """
        done = 0
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while done < self.size:
                data = file.read(min(size, self.size - done))
                if not data:
                    raise InputError(f"{self.path} became shorter while it was read. {advice}")
                yield Piece(done, data)
                done += len(data)


@dataclass(frozen=True)
class Kind:
    """A kind of archive: backup or bundle.

    Args:
        name: `backup` or `bundle`, as manifests have it; a manifest without a kind is a backup's.
        remedy: what the user can do if an archive is damaged.
        is_part: whether an archive of this kind may hold a part of this name; it may raise `ResourceFailed` instead.
    """

    name: str
    remedy: str
    is_part: Callable[[str], bool]

    def damaged(self, path: Path, reason: str) -> InputError:
        """The error for an archive that is damaged.

        Args:
            path: the archive.
            reason: what is wrong with it.
        """
        return InputError(f"{path}: {reason}. Nothing was changed; {self.remedy}.")


@dataclass(frozen=True)
class Contents:
    """The contents of an archive that matches its manifest.

    Args:
        path: the archive.
        digest: SHA-256 of the manifest, which tells this archive from others.
        manifest: the manifest's JSON values.
        parts: all members but the manifest, by name.
    """

    path: Path
    digest: str
    manifest: Mapping[str, Any]
    parts: Mapping[str, Part]

    @property
    def made(self) -> str:
        """When the archive was made, in ISO 8601 with a space."""
        return datetime.fromisoformat(self.manifest["made"]).isoformat(sep=" ", timespec="seconds")

    @property
    def by(self) -> str:
        """Who made the archive, as `USER@HOST`."""
        return str(self.manifest["by"])


def origin(when: datetime) -> dict[str, str]:
    """The values of a manifest that say when, by whom and by which slurmfab an archive is made.

    Args:
        when: the start of the run that makes it.

    Returns:
        `made`, `by` and `slurmfab`.
    """
    by = f"{getpass.getuser()}@{socket.gethostname()}"
    return {"made": when.isoformat(timespec="seconds"), "by": by, "slurmfab": __version__}


def verified(path: Path, kind: Kind, build: Callable[[Contents, BinaryIO], Result]) -> Result:
    """Compare every byte of an archive with its manifest, and build a value from its contents.

    Args:
        path: the archive.
        kind: what it has to be.
        build: makes the value from the contents and the open file; its errors that `UNREADABLE` lists, and
            `ResourceFailed`, mean that the archive is damaged.

    Raises:
        InputError: the archive is damaged, is of another kind, or was made by a newer slurmfab.
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return build(contents_of(path, file, kind), file)
    except UNREADABLE as error:
        raise kind.damaged(path, f"it is not a {kind.name} made by slurmfab, or it is incomplete ({error})") from error
    except ResourceFailed as error:
        raise kind.damaged(path, str(error)) from error


def contents_of(path: Path, file: BinaryIO, kind: Kind) -> Contents:
    """The contents of an open archive, once they are known to match the manifest.

    Args:
        path: the archive.
        file: the same, open for reading.
        kind: what it has to be.

    Raises:
        InputError: see `verified`.
    """
    members = members_of(path, file, kind)
    if MANIFEST not in members:
        raise kind.damaged(path, f"there is no {MANIFEST} in it, so it is incomplete")
    own = members.pop(MANIFEST)
    if own.size > MAX_WHOLE_SIZE:
        raise kind.damaged(path, f"its {MANIFEST} is too large")
    file.seek(own.offset)
    manifest: dict[str, Any] = json.loads(file.read(own.size))
    if manifest.get("kind", "backup") != kind.name:
        raise kind.damaged(path, f"it is not a {kind.name} made by slurmfab")
    if manifest["format"] != FORMAT:
        raise InputError(f"{path} was made by a newer slurmfab (format {manifest['format']}, this one knows {FORMAT}).")
    wrong = altered(manifest, members)
    if wrong:
        raise kind.damaged(path, f"its content does not match the manifest: {', '.join(wrong[:4])}")
    return Contents(path, own.sha256, manifest, members)


def members_of(path: Path, file: BinaryIO, kind: Kind) -> dict[str, Part]:
    """The members of an archive, the manifest among them, by name.

    Args:
        path: the archive.
        file: the same, open for reading.
        kind: what it has to be.

    Raises:
        InputError: a name is there twice, or does not belong into such an archive.
    """
    found: dict[str, Part] = {}
    with tarfile.open(fileobj=file, mode="r:", tarinfo=BoundedHeader) as tar:
        for member in tar:
            name = member.name
            if not member.isreg() or name in found or not (name == MANIFEST or kind.is_part(name)):
                raise kind.damaged(path, f"{name[:80]!r} does not belong into it")
            digest = hashlib.sha256()
            content = tar.extractfile(member)
            assert content is not None, "it is a regular file"
            while piece := content.read(HASH_PIECE):
                digest.update(piece)
            found[name] = Part(member.size, digest.hexdigest(), member.offset_data, path)
    return found


def altered(manifest: Mapping[str, Any], parts: Mapping[str, Part]) -> list[str]:
    """The names of parts that differ from the manifest, are missing, or are not in the manifest; sorted."""
    listed = {name: (part["size"], part["sha256"]) for name, part in manifest["parts"].items()}
    stored = {name: (part.size, part.sha256) for name, part in parts.items()}
    return sorted(name for name in {*listed, *stored} if listed.get(name) != stored.get(name))


def print_descriptions(paths: Iterable[Path], describe: Callable[[Path], str]) -> int:
    """Print a description of each archive, or what is wrong with it.

    Args:
        paths: the archives.
        describe: verifies an archive and returns its description.

    Returns:
        The exit code: 1 if one of them is missing or damaged.
    """
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

    >>> format_size(70_000)
    '68 KiB'
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004 - the next unit
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
