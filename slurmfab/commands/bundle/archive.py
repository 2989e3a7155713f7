"""A verified bundle on the deployer: its path, its manifest, its package index and its packages."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from slurmfab.base import archive
from slurmfab.base.answers import Phrase
from slurmfab.base.archive import MAX_WHOLE_SIZE, Contents, Kind, Manifest, format_size
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.named_path import named
from slurmfab.on_hosts.agent.packages.bundle_place import INDEX, checked

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory


MAX_PACKAGE_SIZE = 2 << 30  # bytes of the largest package; a whole bundle usually has some 100 MiB


@dataclass(frozen=True, kw_only=True)
class BundleManifest(Manifest):
    """The manifest of a bundle."""

    suite: Phrase  # release of the distribution that it is for, as facts have it, such as `trixie` or `el9`
    architecture: Phrase  # Debian's name for it, such as `amd64`, or that of rpm, such as `x86_64`
    slurm: Phrase
    host: Phrase
    names: tuple[Phrase, ...]  # the packages that were asked for; the bundle has their dependencies too


@dataclass(frozen=True)
class Bundle(Contents[BundleManifest]):
    """A verified bundle; its parts are the index and the packages' files."""

    @property
    def index(self) -> str:
        """The text of its Packages file."""
        return self.parts[INDEX].read().decode()


def path_of(cluster_file: Path, suite: str, architecture: str) -> Path:
    """The usual path of a bundle: `cluster.bundle-trixie-amd64.tar` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.bundle-{suite}-{architecture}.tar")


def paths_by_name(known: Inventory) -> dict[str, Path]:
    """The paths of the bundles that a cluster file names, by these names; relative ones begin at its directory."""
    return {name: named(known.path.parent, name) for name in known.cluster.bundle}


def verified(path: Path) -> Bundle:
    """Read and compare a bundle, once in a run; InputError if missing, damaged, or by a newer slurmfab."""
    try:
        status = path.stat()
        return _verified(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        raise InputError(
            f"There is no bundle {path}. Make it on a host that reaches its mirror: {FAB} bundle."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


@functools.lru_cache(maxsize=16)
def _verified(path: Path, _time: int, _size: int) -> Bundle:
    """The bundle in a file; it is read again when the file's time or size has changed."""
    return archive.verified(path, KIND, bundle_from)


def is_part(name: str) -> bool:
    """Whether a bundle may hold a part of this name: the index or a package; ResourceFailed for other names."""
    return name == INDEX or bool(checked(name))


def most_bytes(name: str) -> int:
    """The size of the largest part of a name."""
    return MAX_WHOLE_SIZE if name == INDEX else MAX_PACKAGE_SIZE


KIND = Kind("bundle", BundleManifest, f"make it again: {FAB} bundle", is_part, most_bytes)


def bundle_from(contents: Contents[BundleManifest], _file: BinaryIO) -> Bundle:
    """A bundle from the contents of its archive. Raises InputError if the index is missing, or is not text."""
    if INDEX not in contents.parts:
        raise KIND.damaged(contents.path, f"its content does not match the manifest: {INDEX}")
    try:
        contents.parts[INDEX].read().decode()
    except UnicodeDecodeError as error:
        raise BrokenFile(INDEX, "it is not UTF-8 text", error.object.count(b"\n", 0, error.start) + 1) from error
    return Bundle(contents.path, contents.digest, contents.manifest, contents.parts, contents.seal)


def description(bundle: Bundle) -> str:
    """A few lines about a bundle: which system it is for, when and by whom it was made, and for which packages."""
    count, about = len(bundle.parts) - 1, bundle.manifest
    return "\n".join((
        f"{bundle.path}: {about.suite} on {about.architecture}, Slurm {about.slurm}, {count} packages, "
        f"{format_size(bundle.path.stat().st_size)}",
        f"  made {bundle.made}, by {about.by}, with the package sources of {about.host}",
        f"  for: {', '.join(sorted(about.names))}",
        f"  SHA-256 of its manifest: {bundle.digest}",
    ))  # fmt: skip
