"""Installed packages: what is the same for every package manager, of which each has a class of its own."""

from __future__ import annotations

from typing import ClassVar, Dict, Iterable, Optional, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

INSTALLED = "installed"


class InstalledPackages(Resource):
    """Installed packages, of any version where none is wanted; the installation does not start their daemons.

    The class of a package manager has a `kind`, tells what is there by `states`, `versions_of` and `left`, and installs
    in `converge` what differs. Before, it notes with `added_packages` which packages were not there.
    """

    deadline: ClassVar[float] = 7200.0
    LEFT: ClassVar[Tuple[str, ...]] = ("unfinished",)
    """What an interrupted installation may leave, by the keys of `left`; `unfinished` are packages."""

    names: Tuple[str, ...]
    bundle: str = ""  # digest of the bundle that the packages come from; empty for the host's own package sources
    # `NAME=VERSION` of those that need a certain version, or with a `*` behind the beginning of one.
    versions: Tuple[str, ...] = ()
    files: Tuple[Tuple[str, str, str], ...] = ()  # name, file and SHA-256 of packages that were sent here in files
    # The names of all packages of Slurm's own, if these have a source or a version in the cluster file.
    slurm: Tuple[str, ...] = ()
    slurm_version: str = ""  # the version that these get on a host without Slurm; empty for any

    def states(self, context: Context) -> Dict[str, str]:
        """The state of each of the packages that is there, `installed` for one that is whole, by name."""
        raise NotImplementedError

    def versions_of(self, context: Context, names: Iterable[str]) -> Dict[str, str]:
        """The versions of installed packages, by name."""
        raise NotImplementedError

    def left(self, context: Context, *, is_whole: bool) -> Dict[str, Optional[str]]:
        """What an interrupted installation left, by `LEFT`, or `None`; `is_whole`: all packages are installed."""
        raise NotImplementedError

    def name(self) -> str:
        """The package names, with commas."""
        return ",".join(self.names)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every package installed, no package of the host half installed, and nothing left by an interrupted run."""
        versions = dict(text.split("=") for text in self.versions)
        return {**dict.fromkeys(self.names, INSTALLED), **versions, **dict.fromkeys(self.LEFT)}

    def actual(self, context: Context) -> State:
        """The state of each package, or its version where another one is wanted, and what an interrupted run left."""
        states = self.states(context)
        is_whole = all(states.get(name) == INSTALLED for name in self.names)
        return {**states, **self.found_versions(context, states), **self.left(context, is_whole=is_whole)}

    def found_versions(self, context: Context, states: Dict[str, str]) -> Dict[str, str]:
        """The wanted version, or the other one that is there, of installed packages that need a certain one."""
        wanted = dict(text.split("=") for text in self.versions)
        there = self.versions_of(context, [name for name in wanted if states.get(name) == INSTALLED])
        return {name: wanted[name] if is_version(one, wanted[name]) else one for name, one in there.items()}


def is_version(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, or begins like it where that ends in `*`.

    >>> is_version("3.2.2-2", "3.2*"), is_version("3.2.2-2", "3.2")
    (True, False)
    """
    return version.startswith(wanted[:-1]) if wanted.endswith("*") else version == wanted
