"""The cluster under test in a quickcheck: its user, nodes and submitting host, and how to run jobs on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.own_jobs import Place
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.hosts import CheckedHost, Opener, line_of
from slurmfab.commands.checks.slurm import Slurm, job_words
from slurmfab.commands.checks.user_jobs import read_output
from slurmfab.core.impact.drift_kinds import acceptance
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.nodes.states import records
from slurmfab.on_hosts.agent.nodes.user_jobs import SMALL_MEMORY, Person

MOST_NAMED = 3  # how many nodes a message names with their reasons if no node takes jobs


@dataclass(frozen=True)
class Bench:
    """A cluster under test."""

    known: Inventory
    sender: CheckedHost  # the host from which jobs are submitted
    who: Person  # the user who submits the jobs
    nodes: tuple[str, ...]  # names of the nodes that may be used
    opener: Opener  # opens shells on other hosts
    seconds: float  # time limit of each job, waiting included
    # whether each node is tested, because the user named the nodes, instead of one node of each kind
    is_each: bool = False
    image: str = ""  # container image, as the runtime spells it; empty for one that is already on the node

    @property
    def cluster(self) -> Cluster:
        """What the cluster file says."""
        return self.known.cluster

    @cached_property
    def slurm(self) -> Slurm:
        """Slurm's commands, and test jobs, of the user."""
        who = self.who
        return Slurm(self.sender, self.cluster, user=who.name, sender=who.command, seconds=self.seconds)

    def records(self) -> dict[str, Mapping[str, str]]:
        """Slurm's records of the nodes that may be used, by name."""
        shown = self.sender.ask(line_of(commands.show_nodes()))
        found = {record["NodeName"]: record for record in records(shown)}
        return {name: found.get(name, {}) for name in self.nodes}

    def free(self, nodes: Sequence[str] = ()) -> tuple[str, ...]:
        """Nodes, of these or all, on which a small job starts at once, idle ones first; raises as `Work`."""
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
        """The reasons why none of these nodes takes jobs, and the repair for the first."""
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
        complaint = node_state.complaint(name, record, acceptance(name))
        return (
            complaint
            or f"the node is in no partition. Repair: add it to a partition of the cluster file, then {FAB} deploy"
        )

    def run(
        self,
        nodes: Sequence[str],
        command: str,
        *,
        memory: int = SMALL_MEMORY,
        options: Sequence[str] = (),
        may_fail: bool = False,
    ) -> str:
        """Run a command once on each of these nodes, in the user's home, with MiB of memory each; raises as `Work`.

        `may_fail`: whether the caller judges its end by what it printed, errors included.
        """
        self.slurm.busy.clear()
        done = self.slurm.run(nodes, command, memory=memory, options=(f"--chdir={self.who.home}", *options))
        log = f"/var/log/slurmd/slurmd.log on {fold(nodes)}"
        if may_fail:
            return f"{done.stdout}{done.stderr}"
        assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see {log}"
        return str(done.stdout)

    def small_job(self, node: str) -> tuple[Place, tuple[str, ...]]:
        """Where a batch job with one task on a node runs, and its options; AssertionError without a partition."""
        place = self.slurm.place((node,))
        assert place, f"{node} is in no partition. Repair: add it to one in the cluster file, then {FAB} deploy"
        self.slurm.has_run_jobs = True
        memory = self.slurm.memory_option((node,))
        named = (f"--job-name={self.slurm.job_name}", "--time=5", "--ntasks=1", f"--nodelist={node}")
        return place, (*named, *place.options, memory)

    def read_output(self, path: str, node: str) -> tuple[str, str]:
        """Read the output of a job of the user; see `user_jobs.read_output`."""
        return read_output(self.sender, self.opener, self.known, self.who, path=path, node=node)


Work = Callable[[Bench, str], str]
"""A check: it runs on a node and returns the text for the line of a passed check. It raises AssertionError if it fails,
and pytest.skip.Exception if it cannot be tried, such as while other jobs use the resources."""


def has_room(record: Mapping[str, str]) -> bool:
    """Whether a node has a free CPU and enough free memory for a small job."""
    total, used = number(record, "CPUTot"), number(record, "CPUAlloc")
    memory = number(record, "RealMemory")
    return used < total and memory - number(record, "AllocMem") >= min(SMALL_MEMORY, memory)


def number(record: Mapping[str, str], key: str) -> int:
    """A number in a node's record; 0 if it is missing."""
    value = record.get(key, "")
    return int(value) if value.isdecimal() else 0


def memory_for(record: Mapping[str, str], each: int, count: int) -> int:
    """MiB of memory for a job of `count` parts: at most what the node has free, at least `SMALL_MEMORY`."""
    return max(SMALL_MEMORY, min(each * count, number(record, "RealMemory") - number(record, "AllocMem")))
