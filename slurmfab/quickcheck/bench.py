"""What every quickcheck works with: whose jobs they are, the nodes that have room, and a way to run something there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from slurmfab.checks import node_state
from slurmfab.checks.hosts import CheckedHost, Shells
from slurmfab.checks.slurm import SMALL_MEMORY, Slurm, job_words
from slurmfab.checks.wanted import partition_of
from slurmfab.errors import InputError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.plans.kinds_of_drift import acceptance

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where a user's programs are, before any profile."""

MOST_NAMED = 3
"""How many nodes are told of one by one where none takes jobs."""

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]


@dataclass(frozen=True)
class Person:
    """Whose jobs they are.

    Args:
        name: login name.
        home: home directory; jobs begin there, and leave their output there.
    """

    name: str
    home: str

    @property
    def command(self) -> tuple[str, ...]:
        """What runs the command behind it as this person, with nothing of root's environment."""
        own = (f"HOME={self.home}", f"USER={self.name}", f"LOGNAME={self.name}", "SHELL=/bin/sh", f"PATH={PATH}")
        return ("runuser", "-u", self.name, "--", "env", "-i", *own)


def person(host: CheckedHost, name: str) -> Person:
    """A user of a host.

    Raises:
        InputError: nobody is called that.
    """
    fields = host.run("getent passwd %s", name).stdout.strip().split(":")
    if len(fields) < 7:  # noqa: PLR2004 - passwd(5)
        raise InputError(f"--user {name}: there is no such user on {host.name}.")
    return Person(name, fields[5])


class Bench:
    """A cluster that is tried.

    Args:
        known: the cluster, with its lock.
        sender: the host that sends the jobs.
        who: whose jobs they are.
        nodes: the names of the nodes that may be used.
        opener: opens shells of further hosts.
        seconds: how long each job may take, waiting included.
        is_each: whether the user named the nodes, so that each of them is tried and not one of each kind.
        image: for containers, as their runtime spells it; empty for one that is there.
    """

    def __init__(
        self,
        known: Inventory,
        sender: CheckedHost,
        who: Person,
        nodes: Sequence[str],
        *,
        opener: Opener,
        seconds: float,
        is_each: bool = False,
        image: str = "",
    ) -> None:
        self.known = known
        self.cluster = known.cluster
        self.sender = sender
        self.who = who
        self.nodes = tuple(nodes)
        self.opener = opener
        self.seconds = seconds
        self.is_each = is_each
        self.image = image
        self.slurm = Slurm(sender, known.cluster, sender=who.command, seconds=seconds)

    def records(self) -> dict[str, Mapping[str, str]]:
        """Slurm's records of the nodes that may be used, by name."""
        lines = self.sender.ask("scontrol --details --oneliner show nodes").splitlines()
        found = {record.get("NodeName", ""): record for record in map(node_state.record, lines)}
        return {name: found.get(name, {}) for name in self.nodes}

    def free(self, nodes: Sequence[str] = ()) -> tuple[str, ...]:
        """The nodes, of these or of all that may be used, on which a small job would begin at once; idle ones first.

        Raises:
            pytest.skip.Exception: other jobs have all of them.
            AssertionError: none takes jobs.
        """
        records = self.records()
        meant = nodes or self.nodes
        ready = [name for name in meant if node_state.is_ready(records[name]) and partition_of(self.cluster, (name,))]
        free = [name for name in ready if has_room(records[name])]
        if free:
            return tuple(sorted(free, key=lambda name: records[name].get("State") != "IDLE"))
        if ready:
            pytest.skip(f"other jobs have all of {fold(ready)}.")
        raise AssertionError(self.why_not(meant, records))

    def why_not(self, nodes: Sequence[str], records: Mapping[str, Mapping[str, str]]) -> str:
        """Why none of these nodes takes jobs, and what to do about the first."""
        told = [self.complaint(name, records[name]) for name in nodes]
        causes = [f"{name}: {text.partition(' Repair: ')[0]}" for name, text in zip(nodes, told, strict=True)]
        if len(causes) == 1:
            return told[0].replace("Slurm has it", f"{nodes[0]} takes no jobs; Slurm has it", 1)
        more = f" And {len(causes) - MOST_NAMED} more." if len(causes) > MOST_NAMED else ""
        repair = next((text.partition(" Repair: ")[2] for text in told), "")
        return f"no node takes jobs. {' '.join(causes[:MOST_NAMED])}{more} Repair: {repair or 'fab status'}"

    def complaint(self, name: str, record: Mapping[str, str]) -> str:
        """Why a node takes no jobs, with the repair."""
        if not record:
            return "Slurm does not know it. Repair: fab deploy"
        said = node_state.complaint(name, record, acceptance(self.cluster.roles(name), name))
        return said or "no partition has it. Repair: name it in a partition of the cluster file, then fab deploy"

    def run(
        self, nodes: Sequence[str], command: str, *, memory: int = SMALL_MEMORY, options: Sequence[str] = ()
    ) -> str:
        """What a command prints that runs once on each of these nodes, in the person's home.

        Args:
            nodes: their names.
            command: for `sh -c`.
            memory: MiB per node.
            options: more of srun's.

        Raises:
            AssertionError: it failed, or Slurm did not run it.
            pytest.skip.Exception: other jobs are in the way.
        """
        self.slurm.busy.clear()
        done = self.slurm.run(nodes, command, memory=memory, options=(f"--chdir={self.who.home}", *options))
        log = f"/var/log/slurm/slurmd.log on {fold(nodes)}"
        assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see {log}"
        return str(done.stdout)

    def as_person(self, *words: str) -> str:
        """A command line that runs a command as the person, on a host where root's shell is ours."""
        return f"cd /tmp && {shlex.join([*self.who.command, *words])}"


def has_room(record: Mapping[str, str]) -> bool:
    """Whether a node has a processor and a little memory left."""
    total, used = number(record, "CPUTot"), number(record, "CPUAlloc")
    return used < total and number(record, "RealMemory") - number(record, "AllocMem") >= SMALL_MEMORY


def number(record: Mapping[str, str], key: str) -> int:
    """A number of a node's record; 0 where it has none."""
    said = record.get(key, "")
    return int(said) if said.isdigit() else 0


def memory_for(record: Mapping[str, str], each: int, count: int) -> int:
    """MiB for a job that needs so much for each of some things, but no more than the node has left."""
    return max(SMALL_MEMORY, min(each * count, number(record, "RealMemory") - number(record, "AllocMem")))
