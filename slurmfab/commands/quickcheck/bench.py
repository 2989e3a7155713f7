"""The cluster under test in a quickcheck: its user, nodes and submitting host, and how to run jobs on it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.hosts import CheckedHost, Shells, line_of
from slurmfab.commands.checks.slurm import SMALL_MEMORY, Slurm, job_words
from slurmfab.core.impact.drift_kinds import acceptance
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.nodes.states import records

PATH = "/usr/local/bin:/usr/bin:/bin"
"""PATH of the jobs' user, without that user's profile."""

MOST_NAMED = 3
"""How many nodes a message names with their reasons if no node takes jobs."""

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]
"""Opens shells on the named hosts of a cluster; see `slurmfab.commands.checks.hosts.open_shells`."""


@dataclass(frozen=True)
class Person:
    """The user who submits the jobs."""

    name: str
    home: str  # home directory; jobs start there, and write their output there

    @property
    def command(self) -> tuple[str, ...]:
        """The prefix that runs a command as this user, without root's environment."""
        own = (f"HOME={self.home}", f"USER={self.name}", f"LOGNAME={self.name}", "SHELL=/bin/sh", f"PATH={PATH}")
        return ("runuser", "-u", self.name, "--", "env", "-i", *own)


def person(host: CheckedHost, name: str) -> Person:
    """A user of a host, by login name.

    Raises:
        InputError: the host has no such user.
    """
    fields = host.run("getent passwd %s", name).stdout.strip().split(":")
    if len(fields) < 7:  # noqa: PLR2004 - passwd(5)
        raise InputError(f"--user {name}: there is no such user on {host.name}.")
    return Person(name, fields[5])


class Bench:
    """A cluster under test.

    Args:
        sender: the host from which jobs are submitted.
        who: the user who submits the jobs.
        nodes: names of the nodes that may be used.
        opener: opens shells on other hosts.
        seconds: time limit of each job, waiting included.
        is_each: whether each node is tested, because the user named the nodes, instead of one node of each kind.
        image: container image, as the runtime spells it; empty for one that is already on the node.
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
        self.slurm = Slurm(sender, known.cluster, user=who.name, sender=who.command, seconds=seconds)

    def records(self) -> dict[str, Mapping[str, str]]:
        """Slurm's records of the nodes that may be used, by name."""
        shown = self.sender.ask(line_of(commands.show_nodes()))
        found = {record["NodeName"]: record for record in records(shown)}
        return {name: found.get(name, {}) for name in self.nodes}

    def free(self, nodes: Sequence[str] = ()) -> tuple[str, ...]:
        """Names of the nodes on which a small job would start at once, idle ones first.

        Args:
            nodes: names of the candidates; empty for all nodes that may be used.

        Raises:
            pytest.skip.Exception: other jobs use all candidates.
            AssertionError: no candidate takes jobs.
        """
        records = self.records()
        meant = nodes or self.nodes
        ready = [name for name in meant if node_state.is_ready(records[name]) and self.slurm.place((name,))]
        free = [name for name in ready if has_room(records[name])]
        if free:
            return tuple(sorted(free, key=lambda name: records[name].get("State") != "IDLE"))
        if ready:
            pytest.skip(f"other jobs use all of {fold(ready)}.")
        raise AssertionError(self.why_not(meant, records))

    def why_not(self, nodes: Sequence[str], records: Mapping[str, Mapping[str, str]]) -> str:
        """The reasons why none of these nodes takes jobs, and the repair for the first.

        Args:
            records: Slurm's records of the nodes, by name.
        """
        complaints = [self.complaint(name, records[name]) for name in nodes]
        causes = [f"{name}: {text.partition(' Repair: ')[0]}" for name, text in zip(nodes, complaints, strict=True)]
        if len(causes) == 1:
            return complaints[0].replace("its state", f"{nodes[0]} takes no jobs; its state", 1)
        more = f" And {len(causes) - MOST_NAMED} more." if len(causes) > MOST_NAMED else ""
        repair = next((text.partition(" Repair: ")[2] for text in complaints), "")
        way = repair or f"{FAB} status"
        return f"no node takes jobs. {' '.join(causes[:MOST_NAMED])}{more} Repair: {way}"

    def complaint(self, name: str, record: Mapping[str, str]) -> str:
        """Why a node takes no jobs, with the repair."""
        if not record:
            return f"the node is not in Slurm. Repair: {FAB} deploy"
        complaint = node_state.complaint(name, record, acceptance(self.cluster.roles(name), name))
        return (
            complaint
            or f"the node is in no partition. Repair: add it to a partition of the cluster file, then {FAB} deploy"
        )

    def run(
        self, nodes: Sequence[str], command: str, *, memory: int = SMALL_MEMORY, options: Sequence[str] = ()
    ) -> str:
        """Run a command once on each of these nodes, in the user's home, and return its output.

        Args:
            memory: MiB per node.

        Raises:
            AssertionError: the job failed, or Slurm did not run it.
            pytest.skip.Exception: other jobs use the resources.
        """
        self.slurm.busy.clear()
        done = self.slurm.run(nodes, command, memory=memory, options=(f"--chdir={self.who.home}", *options))
        log = f"/var/log/slurmd/slurmd.log on {fold(nodes)}"
        assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see {log}"
        return str(done.stdout)

    def as_person(self, *command: str, who: Person | None = None) -> str:
        """The command line, for a root shell, that runs a command as a user, by default as the one of the jobs."""
        return f"cd /tmp && {shlex.join([*(who or self.who).command, *command])}"


def has_room(record: Mapping[str, str]) -> bool:
    """Whether a node has a free CPU and enough free memory for a small job."""
    total, used = number(record, "CPUTot"), number(record, "CPUAlloc")
    memory = number(record, "RealMemory")
    return used < total and memory - number(record, "AllocMem") >= min(SMALL_MEMORY, memory)


def number(record: Mapping[str, str], key: str) -> int:
    """A number in a node's record; 0 if it is missing."""
    value = record.get(key, "")
    return int(value) if value.isdigit() else 0


def memory_for(record: Mapping[str, str], each: int, count: int) -> int:
    """MiB of memory to request for a job: at most what the node has free, and at least `SMALL_MEMORY`.

    Args:
        each: MiB for each part of the job, such as a GPU.
    """
    return max(SMALL_MEMORY, min(each * count, number(record, "RealMemory") - number(record, "AllocMem")))
