"""The plan of an upgrade of Slurm: who has what, what each host gets, in which order, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurmfab.cluster.slurm.versions import SlurmVersion

What = Literal["backup", "slurmdbd", "controllers", "nodes", "others", "files"]
"""A step of an upgrade, named after what it is about, in their order: slurmdbd is never older than slurmctld, and so on
(slurmfab.cluster.slurm.window)."""

NO_UPGRADE: tuple[What, ...] = ("backup", "files")
"""The steps that give no host another Slurm."""


@dataclass(frozen=True)
class Target:
    """What an upgrade leads to."""

    version: str  # as in the cluster file, such as `26.05.*`; empty for whatever the suite has
    suite: str  # the suite of the hosts' own mirrors that was named with --suite; empty for none
    series: SlurmVersion  # the series that the hosts would get; the wanted one where nothing is offered


@dataclass(frozen=True)
class SlurmUser:
    """A process that uses files of Slurm's packages, and is none of slurmctld, slurmd and slurmdbd."""

    pid: str
    unit: str  # the service that it belongs to; empty for none
    program: str
    user: str
    is_old: bool  # whether a file was replaced since it began


@dataclass(frozen=True)
class HostVersions:
    """What one host has of Slurm, and would get."""

    installed: Mapping[str, str] = field(default_factory=dict)  # versions of Slurm's installed packages by name
    # versions that the programs on the disk tell, by name, such as `slurmctld`: `24.11.5`
    programs: Mapping[str, str] = field(default_factory=dict)
    # versions of running daemons, by name; other ones than of the programs where a daemon was not restarted
    running: Mapping[str, str] = field(default_factory=dict)
    # the version that each installed package of Slurm would get; without those that have it already
    offered: Mapping[str, str] = field(default_factory=dict)
    # likewise, of other packages that would come along, such as libraries
    others: Mapping[str, str] = field(default_factory=dict)
    users: tuple[SlurmUser, ...] = ()  # other processes that use Slurm's files

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
    """

    what: What  # whom it is about
    hosts: tuple[str, ...]  # the hosts on which it does something, in the cluster file's order
    packages: Mapping[str, Mapping[str, str]]  # for each host that gets packages in this step: the new version by name
    daemons: Mapping[str, tuple[str, ...]]  # the daemons that start with the new version, by host
    why: str  # what it does and what that means for jobs, for people
    # ids of the resources that it may change, as the run records them, by host
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()  # what it changes, for people: hosts with the same folded


@dataclass(frozen=True)
class Conversion:
    """The conversion of the accounting database at slurmdbd's first start."""

    rows: Mapping[str, int]  # rows in the big tables, by table, as the database server estimates them
    bytes: int
    seconds: tuple[float, float]  # the range in which the time is expected


@dataclass(frozen=True)
class UpgradePlan:
    """What an upgrade would do."""

    target: Target
    have: SlurmVersion  # the oldest series that a host has now
    hosts: Mapping[str, HostVersions]  # versions by host, of the hosts that answered
    steps: tuple[UpgradeStep, ...]  # what is to be done, in order; empty where all is as wanted
    refusals: tuple[str, ...] = ()  # why it may not be done, each with what to do instead; empty if it may
    warnings: tuple[str, ...] = ()  # what it would change or hurt, each with what to do about it
    conversion: Conversion | None = None  # what slurmdbd would convert; `None` without a slurmdbd or within one series
    way_back: tuple[str, ...] = ()  # how each stage can be undone, in order
    silent: Mapping[str, str] = field(default_factory=dict)  # why a host did not answer, by host
    # number of jobs by state, such as `RUNNING`; empty where slurmctld could not be asked
    jobs: Mapping[str, int] = field(default_factory=dict)
    batches: int = 0  # how many groups of nodes are upgraded one after the other

    @property
    def is_done(self) -> bool:
        """Whether every host that answered has the new Slurm, and runs it."""
        return all(step.what in NO_UPGRADE for step in self.steps)
