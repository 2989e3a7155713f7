"""The directory of .deb or .rpm files that Slurm's packages come from: read, and checked before hosts are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from slurmfab.base.errors import InputError, refuse
from slurmfab.cluster.inventory import deb_files, named_path, rpm_files
from slurmfab.cluster.inventory.deb_files import place_of
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.site_packages import DEB
from slurmfab.cluster.inventory.slurm_packages import PackageDirectory, SlurmPackages
from slurmfab.cluster.slurm.platform import DNF, PLATFORMS, named

MOST_FILES = 512  # the most packages in a directory

CLIENTS: Mapping[str, str] = {one.word: one.client for one in PLATFORMS.values()}
"""Of each kind of packages, the one that every host of a cluster has."""

RPM = ".rpm"  # how the name of a package's file ends
JOINTS = {DEB: "_", RPM: "-"}  # what stands between name and version in the name of a file
OF_SOURCES = ".src.rpm"  # of a package of sources, which rpmbuild puts beside what it is of; left alone


def read(inventory: Inventory) -> dict[str, tuple[FiledPackage, ...]]:
    """Read Slurm's packages in directories that the cluster file names: by directory, sorted by file.

    Raises InputError, with a line for each mistake: no directory, a file that is no package, or none of Slurm's.
    """
    found: dict[str, tuple[FiledPackage, ...]] = {}
    for slurm in inventory.cluster.slurms:
        if isinstance(slurm.source, PackageDirectory):
            others = found.get(slurm.source.directory, ())
            found[slurm.source.directory] = (*others, *_read(inventory, slurm, slurm.source))
    return found


def _read(inventory: Inventory, slurm: SlurmPackages, source: PackageDirectory) -> tuple[FiledPackage, ...]:
    """Read the packages in one directory."""
    folder = inventory.path.parent / Path(source.directory).expanduser()
    found, complaints = list[FiledPackage](), list[str]()
    ending = RPM if named(slurm).manager == DNF else DEB
    read_one: Callable[[Path], FiledPackage] = rpm_files.package_in if ending == RPM else deb_files.package_in
    for path in _files(folder, ending, complaints):
        try:
            found.append(read_one(named_path.named(inventory.path.parent, path.absolute())))
        except InputError as error:
            complaints.append(f"{path}: {error}")
    complaints += () if complaints else _mistakes(slurm, folder, ending, found)
    place = f"{place_of(inventory, source.directory)}: slurm.source.directory"
    refuse(f"{place}: {one}" for one in complaints)
    return tuple(found)


def _files(folder: Path, ending: str, complaints: list[str]) -> tuple[Path, ...]:
    """The files of packages in a directory, sorted; what is in the way is added to the complaints."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        complaints.append(f"{folder} cannot be read: {error.strerror}")
        return ()
    found = tuple(folder / name for name in names if name.endswith(ending) and not name.endswith(OF_SOURCES))
    if len(found) > MOST_FILES:
        complaints.append(f"{folder} has {len(found)} packages; at most {MOST_FILES} are allowed")
        return ()
    return found


def _mistakes(slurm: SlurmPackages, folder: Path, ending: str, found: list[FiledPackage]) -> Iterator[str]:
    """Yield what is wrong with the packages of a directory together."""
    client = CLIENTS[slurm.packages]
    clients = [one for one in found if one.name == client]
    if not clients:
        other = next((name for name in CLIENTS.values() if any(one.name == name for one in found)), "")
        hint = f"; it has {other}: is slurm.packages right?" if other else ""
        yield f"{folder} has no {client}{JOINTS[ending]}…{ending}, the package of Slurm's commands{hint}"
    for one in clients:
        if not slurm.fits(one.version):
            yield f"{one.path} is of version {one.version}, and slurm.version is {slurm.version}"
    first = dict[tuple[str, str], FiledPackage]()
    for one in found:
        if first.setdefault((one.name, one.architecture), one) is not one:
            other_file = first[one.name, one.architecture].path.name
            yield f"{other_file} and {one.path.name} are the same package; keep one of them there"
