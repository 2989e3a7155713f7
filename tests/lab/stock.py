"""Kept disks with Slurm deployed, and labs for tests that start from copies of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import TypeVar

import pytest
from lab_cluster import DeployedLab
from lab_user import installed, of_kind, platform_of
from suites import SHARES, SUITES

from slurmfab import lab
from slurmfab.lab import LabSpec
from slurmfab.on_hosts.agent.undo.lock_copy import PLACE


def in_turn(file: str) -> tuple[str, ...]:
    """The suites of a test file whose subject is the same with every Slurm: one by turns, or both with `TURN=all`.

    Args:
        file: its name without `test_`, by which some files are on one suite and some on the other.
    """
    turn = os.environ["TURN"]
    return SUITES if turn == "all" else (SUITES[(int(turn) + len(file)) % len(SUITES)],)


Row = TypeVar("Row")


def part_in_turn(rows: Sequence[Row], parts: int) -> Sequence[Row]:
    """The part of a test file's rows that this run plays, of so many; all with `TURN=all`.

    The runs that play a file, one for each suite once in SHARES, play one part after the other.
    """
    turn = os.environ["TURN"]
    if turn == "all":
        return rows
    rounds, rest = divmod(int(turn), SHARES * len(SUITES))
    part = (rounds * len(SUITES) + rest % len(SUITES)) % parts
    return rows[part % len(rows) :: parts]


def shared_in_turn(fixture: str, file: str) -> pytest.MarkDecorator:
    """The mark of a test file that has a lab of `conftest.py` on one suite by turns.

    Args:
        fixture: `deployed_lab` or `restarted_lab`.
        file: as for `in_turn`.
    """
    return pytest.mark.parametrize(fixture, in_turn(file), indirect=True, scope="module")


PLACES = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Characters that tell the labs of test processes on one machine apart; each process takes one."""


@cache
def place() -> str:
    """A character for the names of this process's labs; no other test process on this machine uses it meanwhile."""
    for letter in PLACES:
        # The file stays open, and so locked, until the process ends.
        descriptor = os.open(f"/run/slurmfab-tests-{letter}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return letter
    pytest.fail(f"{len(PLACES)} processes run lab tests on this machine.")


NODES = 3
"""Number of compute nodes on the kept disks; a lab can have fewer, or more, which are bare then."""

FORGET = f"systemctl stop slurmctld && find /var/lib/slurm/slurmctld -type f -delete && rm {PLACE}"
"""Stops slurmctld and deletes its state, so that it does not report nodes that boot from copies as rebooted; deletes
the copy of the lock, too, as tests deploy to these hosts with cluster files of their own."""

NO_DATABASE = "systemctl start mariadb && systemctl disable --now --quiet mariadb slurmdbd"
"""Stops and disables the accounting database, so that a host has only its packages. MariaDB is waited for, because it
hangs if it is stopped before it has started."""


class Stock:
    """Kept disks of one pytest process, and the labs that start from them.

    For each suite there are disks with a deployed cluster, and disks of one whose controller also has the database's
    packages; both are made on first use. Copies have the addresses of the original, so only one lab of a suite can be
    up at a time. A lab that test files share stays up until a test needs another lab of the suite.
    """

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self.directories = directories
        self.kept: list[str] = []
        self.shared: dict[str, tuple[LabSpec, DeployedLab]] = {}

    @staticmethod
    def name(suite: str) -> str:
        """Name of all labs of a suite and of their clusters."""
        return f"w{place()}{suite[:1]}"

    def spec(self, suite: str, nodes: int = NODES, **wanted: object) -> LabSpec:
        """Specification of a lab that can start from these disks.

        Args:
            suite: Debian suite.
            nodes: number of compute nodes.
            wanted: further arguments of `LabSpec`.
        """
        spec = LabSpec(name=self.name(suite), suite=suite, nodes=nodes, **wanted)  # type: ignore[arg-type]
        return spec if "slurm_packages" in wanted else of_kind(spec)

    def disks(self, suite: str) -> str:
        """Name of the suite's disks with Slurm deployed; makes them on first use."""
        name = self.name(suite)
        if name not in self.kept:
            with self.running(installed(self.spec(suite))) as made:
                made.deploy()
                made.on("ctl", FORGET)
                self.keep(made, name)
        return name

    def disks_with_database(self, suite: str) -> str:
        """Name of the disks that also have the database's packages on the controller; makes them on first use."""
        name = f"{self.name(suite)}db"
        if name not in self.kept:
            spec = self.spec(suite)
            platform = platform_of(spec)
            database = (*platform.packages("database"), *platform.database.packages)
            with self.running(installed(spec, ctl=database)) as made:
                made.deploy()
                made.on("ctl", f"{NO_DATABASE} && {FORGET}")
                self.keep(made, name)
        return name

    def keep(self, made: DeployedLab, name: str) -> None:
        lab.keep_disks(made.lab, name)
        self.kept.append(name)

    @contextmanager
    def running(self, spec: LabSpec, copied: str = "", bare: tuple[str, ...] = ()) -> Iterator[DeployedLab]:
        """A lab that is removed at the end of the context.

        Args:
            spec: the lab's specification.
            copied: name of kept disks to start from; empty for bare hosts.
            bare: hosts that get no copy.
        """
        self.shared.pop(spec.suite, None)
        lab.down(spec.name)
        try:
            made = lab.up(spec, self.directories.mktemp(spec.name), copied=copied, bare=bare)
            yield DeployedLab(made, made.cluster_file)
        finally:
            lab.down(spec.name)

    @contextmanager
    def copy(
        self, suite: str, *, database: bool = False, bare: tuple[str, ...] = (), **wanted: object
    ) -> Iterator[DeployedLab]:
        """A lab for one test file whose hosts have Slurm already, so that deployments are fast.

        Args:
            suite: Debian suite.
            database: whether the controller has the database's packages.
            bare: hosts that were never deployed to.
            wanted: further arguments of `LabSpec`.
        """
        copied = self.disks_with_database(suite) if database else self.disks(suite)
        with self.running(self.spec(suite, **wanted), copied, bare) as made:  # type: ignore[arg-type]
            yield made

    @contextmanager
    def bare(self, suite: str, **wanted: object) -> Iterator[DeployedLab]:
        """A lab for one test file whose hosts were never deployed to and have no package of Slurm."""
        with self.running(self.spec(suite, **wanted)) as made:  # type: ignore[arg-type]
            yield made

    @contextmanager
    def installed(
        self, suite: str, others: Mapping[str, tuple[str, ...]] = MappingProxyType({}), **wanted: object
    ) -> Iterator[DeployedLab]:
        """A lab for one test file whose hosts were never deployed to but have Slurm's packages.

        Args:
            suite: Debian suite.
            others: host name to further packages that it has.
            wanted: further arguments of `LabSpec`.
        """
        with self.running(installed(self.spec(suite, **wanted), **others)) as made:  # type: ignore[arg-type]
            yield made

    def deployed(self, suite: str, **wanted: object) -> DeployedLab:
        """A deployed lab that test files share and must leave intact; reuses the one that is up if its spec is equal.

        Args:
            suite: Debian suite.
            wanted: further arguments of `LabSpec`.
        """
        spec = self.spec(suite, **wanted)  # type: ignore[arg-type]
        if suite not in self.shared or self.shared[suite][0] != spec:
            copied = self.disks(suite)
            lab.down(spec.name)
            made = lab.up(spec, self.directories.mktemp(spec.name), copied=copied)
            self.shared[suite] = spec, DeployedLab(made, made.cluster_file)
            self.shared[suite][1].deploy()
        return self.shared[suite][1]

    def clear(self) -> None:
        """Remove all labs and kept disks; disks that are layered on others are removed first."""
        for suite in SUITES:
            lab.down(self.name(suite))
            for name in (f"{self.name(suite)}db", self.name(suite)):
                lab.remove_disks(name)
