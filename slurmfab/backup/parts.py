"""Reading a tar(5) whose last part, a manifest, has the SHA-256 digest of each other one: backups and bundles.

Any of `UNREADABLE`, which reading can raise, means that the file is damaged.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from slurmfab.agent.backup_archive import FORMAT, MANIFEST
from slurmfab.errors import InputError

UNREADABLE = (tarfile.TarError, EOFError, ValueError, KeyError, TypeError, AttributeError)

SMALL = 16 * 1024 * 1024
"""Bytes of a part that is read as a whole at most; a manifest with a hundred thousand jobs has fewer."""

PIECE = 1 << 20

Damaged = Callable[[Path, str], InputError]
"""Makes the error for a file that is not as it was written, from its path and what is wrong."""


@dataclass(frozen=True)
class Part:
    """A part of a backup or a bundle.

    Args:
        size: in bytes, as it lies in the archive.
        sha256: of these bytes.
        at: where in the archive they begin.
        path: the archive.
    """

    size: int
    sha256: str
    at: int
    path: Path


def parts_of(path: Path, file: BinaryIO, belongs: Callable[[str], bool], damaged: Damaged) -> dict[str, Part]:
    """The parts that are in an archive, the manifest among them, each with its digest.

    Args:
        path: the archive.
        file: the same, open.
        belongs: whether a part of this name may be in it, besides the manifest.
        damaged: see there.

    Raises:
        InputError: there is something twice, or something else.
    """
    found: dict[str, Part] = {}
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            if not member.isreg() or member.name in found or not (member.name == MANIFEST or belongs(member.name)):
                raise damaged(path, f"{member.name[:80]!r} does not belong into it")
            digest = hashlib.sha256()
            content = tar.extractfile(member)
            assert content is not None, "it is a regular file"
            while piece := content.read(PIECE):
                digest.update(piece)
            found[member.name] = Part(member.size, digest.hexdigest(), member.offset_data, path)
    return found


def manifest_of(path: Path, file: BinaryIO, found: Mapping[str, Part], damaged: Damaged) -> dict[str, Any]:
    """What the manifest says.

    Raises:
        InputError: there is none that could be read.
    """
    if MANIFEST not in found:
        raise damaged(path, f"there is no {MANIFEST} in it, so it was cut off")
    if found[MANIFEST].size > SMALL:
        raise damaged(path, f"its {MANIFEST} is too large to be one")
    file.seek(found[MANIFEST].at)
    plain: dict[str, Any] = json.loads(file.read(found[MANIFEST].size))
    return plain


def refuse_newer(path: Path, plain: Mapping[str, Any]) -> None:
    """Refuse an archive of a format that this slurmfab does not know.

    Raises:
        InputError: it is one.
    """
    if plain["format"] != FORMAT:
        raise InputError(f"{path} was made by a newer slurmfab (format {plain['format']}, this one knows {FORMAT}).")


def without_manifest(found: Mapping[str, Part]) -> dict[str, Part]:
    """All parts that a manifest tells of."""
    return {name: part for name, part in found.items() if name != MANIFEST}


def altered(plain: Mapping[str, Any], found: Mapping[str, Part]) -> list[str]:
    """The names of parts that are not as a manifest says, sorted; also of those that are missing, or too many."""
    named = {name: (part["size"], part["sha256"]) for name, part in plain["parts"].items()}
    there = {name: (part.size, part.sha256) for name, part in without_manifest(found).items()}
    return sorted(name for name in {*named, *there} if named.get(name) != there.get(name))
