"""Hosts that answer from memory, and a Slurm on the controller that does too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_output_files import answer
from slurm_tables import job_rows
from support import FakeHosts

from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.nodes.registered import LEFT_DRAINED
from slurmfab.on_hosts.agent.nodes.states import NodeState, flags, our_reason

UP = "Slurmctld(primary) at c1 is UP\n"


@dataclass
class FakeSlurm(FakeHosts):
    """Hosts whose controller knows nodes and jobs.

    Args:
        nodes: state, reason and who gave it, by name.
        jobs: lines of squeue.
        ping: what `scontrol ping` says.
        processes: steps with a step daemon, by host.
        unwell: what the health check finds, by host.
        looked: called before each look at Slurm, to alter it.
        changed: called with each host that is changed.
        ended: lines of squeue for jobs that have ended, for who asks by number.
        closed: partitions that were drained.
        trouble: why Slurm tells nothing of nodes and jobs although it answers.
        trial: what comes of a job on each node; empty where it ran.
        mute: nodes that do not answer when they are resumed.
    """

    nodes: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    ping: str = UP
    processes: dict[str, list[str]] = field(default_factory=dict)
    unwell: dict[str, list[str]] = field(default_factory=dict)
    looked: Callable[[], None] = lambda: None
    changed: Callable[[str], object] = lambda _: None
    ended: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    trouble: str = ""
    trial: dict[str, str] = field(default_factory=dict)
    mute: tuple[str, ...] = ()

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        told = {
            "job-processes": {"job_processes": {"steps": self.processes.get(host, []), "hung": []}},
            "node-health": {"node_health": {"causes": self.unwell.get(host, [])}},
            "trial-jobs": {"trial_jobs": {node: self.trial.get(node, "") for node in request.get("nodes", ())}},
        }
        if request["op"] != "slurm":
            return (told[request["op"]],) if request["op"] in told else super().call(host, request, heard)
        if request.get("numbers"):
            return ({"slurm": {**answer("24.11", ping=self.ping), "named": self.named(request["numbers"])}},)
        self.looked()
        if self.trouble:
            return ({"slurm": {"ping": self.ping, "trouble": self.trouble}},)
        nodes = "".join(self.shown(name) for name in self.nodes)
        jobs = "".join(line + "\n" for line in self.jobs)
        return ({"slurm": answer("24.11", ping=self.ping, nodes=nodes, jobs=jobs)},)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        if not request["dry_run"]:
            self.changed(host)
            for wanted in request["resources"]:
                self.change(wanted)
        is_left = any(self.state(name).is_for_change for name in self.nodes)
        for outcome in super().outcomes(host, request):
            is_remarked = is_left and outcome["id"].startswith("slurm-nodes:") and outcome["status"] == "ok"
            yield {**outcome, "message": LEFT_DRAINED} if is_remarked else outcome

    def change(self, wanted: Mapping[str, Any]) -> None:
        """Make nodes and partitions what a resource wants."""
        if wanted["kind"] == "node-resume":
            for name in wanted["nodes"]:
                state = self.state(name)
                if not wanted["after_change"] or (state.answers and state.is_for_change):
                    self.nodes[name] = ("IDLE+NOT_RESPONDING" if name in self.mute else "IDLE", "", "")
        if wanted["kind"] == "node-drain":
            for name in wanted["nodes"]:
                if not (wanted["for_change"] and self.state(name).is_drained):
                    self.nodes[name] = ("IDLE+DRAIN", our_reason(wanted["text"], wanted["stamp"]), "root")
        if wanted["kind"] == "partition-drain":
            self.closed += wanted["partitions"]

    def named(self, numbers: Iterable[str]) -> list[list[str]]:
        """The rows of the jobs with these numbers, also of ended ones."""
        return job_rows(line for line in (*self.jobs, *self.ended) if line.split("|")[1] in set(numbers))

    def state(self, name: str) -> NodeState:
        """A node's state."""
        return NodeState(flags(self.nodes[name][0]), self.nodes[name][1])

    def shown(self, name: str) -> str:
        """A node's line."""
        state, reason, by = self.nodes[name]
        used = 1 if any(f"|{name}|" in line for line in self.jobs) else 0
        end = f" Reason={reason} [{by}@2026-11-21T09:00:00]" if reason else ""
        return f"NodeName={name} CPUAlloc={used} CPUTot=4 RealMemory=15000 State={state} Partitions=main{end}\n"


def job_line(
    number: int, node: str, user: str = "ann", *, state: str = "RUNNING", reason: str = "None", partition: str = "main"
) -> str:
    """The line of a job that runs on a node, or of one that ended there; without a node, of one that waits."""
    return f"{number}|{number}|{user}|{partition}|{state}|{reason}|1|1|1|0:05|1:00|{node}|cpu=1|N/A|N/A|N/A|x|"
