"""The plan of an upgrade of Slurm: who has what, what each host gets, in which order, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.json_output import Key, shows
from slurmfab.cluster.slurm.versions import SlurmVersion

What = Literal["backup", "slurmdbd", "controllers", "nodes", "others", "files"]
"""A step of an upgrade, named after what it is about, in their order: slurmdbd is never older than slurmctld, and so on
(slurmfab.cluster.slurm.window)."""

NO_UPGRADE: tuple[What, ...] = ("backup", "files")  # the steps that give no host another Slurm


SECONDS: Mapping[What, tuple[float, float]] = {
    "backup": (5, 120), "slurmdbd": (15, 120), "controllers": (15, 120), "nodes": (0, 0), "others": (10, 60),
    "files": (10, 120),
}  # fmt: skip
"""The least and the most seconds of a step, without a conversion, as seen on busy lab hosts and with a slow mirror."""

BATCH_SECONDS = (15.0, 90.0)  # the same for each batch of nodes; the most where packages are fetched slowly

CHECK_SECONDS = (30.0, 300.0)
"""The same for check-cluster: its jobs may wait for several cycles of the backfill scheduler (bf_interval is 30)."""


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


@shows("slurm", "running", "installed", "offered", "others")
@dataclass(frozen=True)
class HostVersions:
    """What a host has of Slurm, and would get."""

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
        """The version of Slurm on its disk, such as `24.11.5`: of its programs, or of a package without one."""
        versions = [*self.programs.values(), *map(upstream, self.installed.values())]
        return next(iter(versions), "")


def upstream(version: str) -> str:
    """The version of Slurm in a package's version.

    >>> upstream("26.05.5-1")
    '26.05.5'
    """
    return version.rpartition(":")[2].partition("-")[0]


@shows("what", "hosts", Key("packages", "updated"), "daemons", "why", "changes", "lines")
@dataclass(frozen=True)
class UpgradeStep:
    """A step of an upgrade.

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

    @property
    def updated(self) -> tuple[str, ...]:
        """The hosts that get packages in this step."""
        return tuple(self.packages)


@dataclass(frozen=True)
class Conversion:
    """The conversion of the accounting database, at slurmdbd's first start."""

    rows: Mapping[str, int]  # rows of the big tables, by table, as the server estimates them
    bytes: int  # size of the database
    seconds: tuple[float, float]  # the least and the most that it is expected to take


@shows(
    "version", "exit_code", Key("from_series", "have", form=str),
    Key("to_series", "target.series", form=str, text="the series that the hosts would get"),
    Key("suite", "target.suite", text="of `--suite`; empty for none"), "hosts", "steps", "refusals", "warnings",
    "conversion", "way_back", "silent", "seconds", "jobs",
)  # fmt: skip
@dataclass(frozen=True)
class UpgradePlan:
    """The plan of an upgrade."""

    version: ClassVar[int] = 1  # of this format: 1
    target: Target
    have: SlurmVersion  # the oldest series of Slurm that something has now
    hosts: Mapping[str, HostVersions]  # by name of each host that answered, what it has and would get
    steps: tuple[UpgradeStep, ...]  # what is to be done, in order; empty where all is as wanted
    refusals: tuple[str, ...] = ()  # why it may not be done, each with what to do instead; empty if it may
    warnings: tuple[str, ...] = ()  # what it would change or hurt, each with what to do about it
    conversion: Conversion | None = None  # of the accounting database; null for none
    way_back: tuple[str, ...] = ()  # how each stage can be undone, in order
    silent: Mapping[str, str] = field(default_factory=dict)  # why a host did not answer, by host
    # number of jobs by state, such as `RUNNING`; empty where slurmctld could not be asked
    jobs: Mapping[str, int] = field(default_factory=dict)
    batches: int = 0  # how many groups of nodes are upgraded one after the other

    @property
    def seconds(self) -> tuple[float, float]:
        """The least and the most time that all of it is expected to take, without waiting for jobs."""
        if self.is_done:
            return 0.0, 0.0
        times = [SECONDS[step.what] for step in self.steps] + [CHECK_SECONDS]
        times += [(count * low, count * high) for low, high in (BATCH_SECONDS,) for count in (self.batches,)]
        times += [self.conversion.seconds] if self.conversion else []
        return sum(low for low, _ in times), sum(high for _, high in times)

    @property
    def is_done(self) -> bool:
        """Whether every host that answered has the new Slurm, and runs it."""
        return all(step.what in NO_UPGRADE for step in self.steps)

    @property
    def exit_code(self) -> int:
        """Of the task: 4 where there is something to do, 1 where it may not be done, 3 without some hosts."""
        if self.refusals:
            return FAILURE
        if self.steps:
            return SOMETHING_TO_DO
        return LEFT_OUT if self.silent else DONE
