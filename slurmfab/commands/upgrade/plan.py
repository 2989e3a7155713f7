"""The plan of an upgrade of Slurm: who has what, what each host gets, in which order, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurmfab.cluster.slurm.versions import SlurmVersion

What = Literal["backup", "slurmdbd", "controllers", "nodes", "logins"]
"""A step of an upgrade, named after whom it is about."""

STEPS: tuple[What, ...] = ("backup", "slurmdbd", "controllers", "nodes", "logins")
"""The order of the steps: slurmdbd is never older than slurmctld, and so on (slurmfab.cluster.slurm.window)."""


@dataclass(frozen=True)
class Target:
    """What an upgrade leads to.

    Args:
        version: as in the cluster file, such as `26.05.*`; empty for whatever the suite has.
        suite: the suite of the hosts' own mirrors that was named with --suite; empty for none.
        series: the series that the hosts would get; the wanted one where nothing is offered.
    """

    version: str
    suite: str
    series: SlurmVersion


@dataclass(frozen=True)
class HostVersions:
    """What one host has of Slurm, and would get.

    Args:
        installed: versions of Slurm's installed packages by name.
        programs: versions that the programs on the disk tell, by name, such as `slurmctld`: `24.11.5`.
        running: versions of running daemons, by name; other ones than of the programs where a daemon was not
            restarted.
        offered: the version that each installed package of Slurm would get; without those that have it already.
        others: likewise, of other packages that would come along, such as libraries.
    """

    installed: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)
    offered: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def slurm(self) -> str:
        """The version of Slurm that the host has, such as `24.11.5`: of its programs, or of a package without one."""
        versions = [*self.programs.values(), *map(upstream, self.installed.values())]
        return next(iter(versions), "")


def upstream(version: str) -> str:
    """The version of Slurm in a package's version.

    >>> upstream("26.05.5-1")
    '26.05.5'
    """
    return version.rpartition(":")[2].partition("-")[0]


@dataclass(frozen=True)
class UpgradeStep:
    """One step of an upgrade.

    All packages of a host become new together, since Slurm's daemons share plugins: so a host gets its packages in the
    first of its steps, and later ones only start its other daemons.

    Args:
        what: whom it is about.
        hosts: the hosts on which it does something, in the cluster file's order.
        packages: for each host that gets packages in this step: the new version by name.
        daemons: the daemons that start with the new version, by host.
        why: what it does and what that means for jobs, for people.
    """

    what: What
    hosts: tuple[str, ...]
    packages: Mapping[str, Mapping[str, str]]
    daemons: Mapping[str, tuple[str, ...]]
    why: str


@dataclass(frozen=True)
class Conversion:
    """The conversion of the accounting database at slurmdbd's first start.

    Args:
        rows: rows in the big tables, by table, as the database server estimates them.
        bytes: size of the database on disk.
        seconds: the range in which the time is expected.
    """

    rows: Mapping[str, int]
    bytes: int
    seconds: tuple[float, float]


@dataclass(frozen=True)
class UpgradePlan:
    """What an upgrade would do.

    Args:
        target: what was asked for.
        have: the oldest series that a host has now.
        hosts: versions by host, of the hosts that answered.
        steps: what is to be done, in order; empty where all is as wanted.
        refusals: why it may not be done, each with what to do instead; empty if it may.
        warnings: what it would change or hurt, each with what to do about it.
        conversion: what slurmdbd would convert; `None` without a slurmdbd or within one series.
        way_back: how each stage can be undone, in order.
        silent: why a host did not answer, by host.
        jobs: number of jobs by state, such as `RUNNING`; empty where slurmctld could not be asked.
    """

    target: Target
    have: SlurmVersion
    hosts: Mapping[str, HostVersions]
    steps: tuple[UpgradeStep, ...]
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    conversion: Conversion | None = None
    way_back: tuple[str, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether nothing is to be done on any host that answered."""
        return not self.steps
