"""A bundle that lies here: where, what its manifest says, and whether it is whole.

The file is an uncompressed tar(5), as backups are: the index, the packages' own files, and last of all a manifest with
the SHA-256 digest of each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from slurmfab.agent.backup_archive import MANIFEST
from slurmfab.agent.bundle_place import INDEX, checked
from slurmfab.agent.resource import ResourceFailed
from slurmfab.backup.archive import size_words
from slurmfab.backup.parts import UNREADABLE, Part, altered, manifest_of, parts_of, refuse_newer, without_manifest
from slurmfab.errors import InputError

if TYPE_CHECKING:
    from slurmfab.inventory import Inventory

KIND = "bundle"
"""What the manifest says that the file is, so that nobody takes a backup for a bundle."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that is whole.

    Args:
        path: the file.
        digest: of its manifest, which tells it from others.
        suite: release of the distribution that it is for, by `VERSION_CODENAME` of os-release(5).
        architecture: Debian's name for it, such as `amd64`.
        slurm: the version of Slurm's packages in it.
        made: when, in ISO 8601.
        by: who, from where.
        host: where the packages were collected.
        names: of the packages that it was made for; what they need is in it as well.
        parts: the index and the packages' files, by name.
    """

    path: Path
    digest: str
    suite: str
    architecture: str
    slurm: str
    made: str
    by: str
    host: str
    names: frozenset[str]
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def index(self) -> str:
        """The text of its Packages file."""
        part = self.parts[INDEX]
        with self.path.open("rb") as file:
            file.seek(part.at)
            return file.read(part.size).decode()


def path_of(cluster_file: Path, suite: str, architecture: str) -> Path:
    """Where the bundle of a cluster lies: `cluster.bundle-trixie-amd64.tar` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.bundle-{suite}-{architecture}.tar")


def of_cluster(known: Inventory) -> tuple[Path, ...]:
    """The bundles that a cluster file names; what is relative there begins where the cluster file lies."""
    return tuple(known.path.parent / Path(name).expanduser() for name in known.cluster.bundle)


def verified(path: Path) -> Bundle:
    """A bundle, once every byte of it was compared with its manifest; a run reads it once.

    Raises:
        InputError: there is none, it is damaged, or it was made by a newer slurmfab.
    """
    try:
        status = path.stat()
        return _verified(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        raise InputError(f"There is no bundle {path}. Make it on a host that reaches its mirror: fab bundle.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


@functools.lru_cache(maxsize=16)
def _verified(path: Path, _time: int, _size: int) -> Bundle:
    """The bundle in a file, read anew when the file has changed."""
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except UNREADABLE as error:
        raise damaged(path, f"it is no bundle of slurmfab's, or was cut off ({error})") from error
    except ResourceFailed as error:
        raise damaged(path, str(error)) from error


def _read(path: Path, file: BinaryIO) -> Bundle:
    """The bundle in an open file; any error that reading can raise means that it is damaged."""
    found = parts_of(path, file, belongs, damaged)
    plain = manifest_of(path, file, found, damaged)
    if plain["kind"] != KIND:
        raise damaged(path, "it is no bundle of slurmfab's")
    refuse_newer(path, plain)
    wrong = altered(plain, found)
    if wrong or INDEX not in found:
        raise damaged(path, f"{', '.join(wrong[:4]) or INDEX}: not as the manifest says")
    return bundle_from(path, plain, without_manifest(found), found[MANIFEST].sha256)


def belongs(name: str) -> bool:
    """Whether a part of this name may be in a bundle.

    Raises:
        ResourceFailed: it may not.
    """
    return name == INDEX or bool(checked(name))


def bundle_from(path: Path, plain: Mapping[str, Any], parts: Mapping[str, Part], digest: str) -> Bundle:
    """A bundle from its manifest's JSON values."""
    return Bundle(
        path,
        digest,
        suite=str(plain["suite"]),
        architecture=str(plain["architecture"]),
        slurm=str(plain["slurm"]),
        made=datetime.fromisoformat(plain["made"]).isoformat(sep=" ", timespec="seconds"),
        by=str(plain["by"]),
        host=str(plain["host"]),
        names=frozenset(map(str, plain["names"])),
        parts=parts,
    )


def damaged(path: Path, reason: str) -> InputError:
    """The error for a file that is not as it was written."""
    return InputError(f"{path}: {reason}. Nothing was changed; make it anew: fab bundle.")


def described(bundle: Bundle) -> str:
    """What a bundle holds, in a few lines."""
    count = len(bundle.parts) - 1
    return "\n".join((
        f"{bundle.path}: {bundle.suite} on {bundle.architecture}, Slurm {bundle.slurm}, {count} packages, "
        f"{size_words(bundle.path.stat().st_size)}",
        f"  made {bundle.made}, by {bundle.by}, with the package sources of {bundle.host}",
        f"  for: {', '.join(sorted(bundle.names))}",
    ))  # fmt: skip
