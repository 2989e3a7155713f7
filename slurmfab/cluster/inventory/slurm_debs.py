"""The directory of .deb files that Slurm's packages come from: read, and checked before any host is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.deb_files import DebFile, package_in, place_of
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.site_packages import DEB
from slurmfab.cluster.inventory.slurm_packages import DebDirectory
from slurmfab.cluster.slurm.platform import PLATFORMS

MOST_FILES = 512  # the most packages in a directory

CLIENTS: Mapping[str, str] = {one.word: one.client for one in PLATFORMS.values()}
"""Of each kind of packages, the one that every host of a cluster has."""


def read(inventory: Inventory) -> tuple[DebFile, ...]:
    """Read Slurm's packages in the cluster file's directory, if any, sorted by file.

    Raises InputError, with a line for each mistake: no directory, a file that is no package, or none of Slurm's.
    """
    source = inventory.cluster.slurm.source
    if not isinstance(source, DebDirectory):
        return ()
    folder = inventory.path.parent / Path(source.directory).expanduser()
    found, complaints = list[DebFile](), list[str]()
    for path in _files(folder, complaints):
        try:
            found.append(package_in(path))
        except InputError as error:
            complaints.append(f"{path}: {error}")
    complaints += () if complaints else _mistakes(inventory, folder, found)
    if complaints:
        place = f"{place_of(inventory, source.directory)}: slurm.source.directory"
        raise InputError("\n".join((*(f"{place}: {one}" for one in complaints), "Nothing was changed on any host.")))
    return tuple(found)


def _files(folder: Path, complaints: list[str]) -> tuple[Path, ...]:
    """The .deb files of a directory, sorted; what is in the way is added to the complaints."""
    try:
        found = tuple(sorted(path for path in folder.iterdir() if path.name.endswith(DEB)))
    except OSError as error:
        complaints.append(f"{folder} cannot be read: {error.strerror}")
        return ()
    if len(found) > MOST_FILES:
        complaints.append(f"{folder} has {len(found)} packages; at most {MOST_FILES} are allowed")
        return ()
    return found


def _mistakes(inventory: Inventory, folder: Path, found: list[DebFile]) -> Iterator[str]:
    """Yield what is wrong with the packages of a directory together."""
    slurm = inventory.cluster.slurm
    client = CLIENTS[slurm.packages]
    clients = [one for one in found if one.name == client]
    if not clients:
        other = next((name for name in CLIENTS.values() if any(one.name == name for one in found)), "")
        hint = f"; it has {other}: is slurm.packages right?" if other else ""
        yield f"{folder} has no {client}_…{DEB}, the package of Slurm's commands{hint}"
    for one in clients:
        if not slurm.fits(one.version):
            yield f"{one.path} is of version {one.version}, and slurm.version is {slurm.version}"
    first = dict[tuple[str, str], DebFile]()
    for one in found:
        if first.setdefault((one.name, one.architecture), one) is not one:
            other_file = first[one.name, one.architecture].path.name
            yield f"{other_file} and {one.path.name} are the same package; keep one of them there"
