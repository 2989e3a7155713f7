"""Hosts that answer from memory, and a Slurm on the controller that does too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_output_files import answer
from support import FakeHosts

from slurmfab.agent.node_states import NodeState, flags
from slurmfab.ssh.session import Line

UP = "Slurmctld(primary) at c1 is UP\n"


@dataclass
class FakeSlurm(FakeHosts):
    """Hosts whose controller knows nodes and jobs.

    Args:
        nodes: state, reason and who gave it, by name.
        jobs: lines of squeue.
        ping: what `scontrol ping` says.
        processes: steps with a step daemon, by host.
        looked: called before each look at Slurm, to alter it.
    """

    nodes: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    ping: str = UP
    processes: dict[str, list[str]] = field(default_factory=dict)
    looked: Callable[[], None] = lambda: None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] == "job-processes":
            return ({"job_processes": {"steps": self.processes.get(host, []), "hung": []}},)
        if request["op"] != "slurm":
            return super().call(host, request, heard)
        self.looked()
        nodes = "".join(self.shown(name) for name in self.nodes)
        jobs = "".join(line + "\n" for line in self.jobs)
        return ({"slurm": answer("24.11", ping=self.ping, nodes=nodes, jobs=jobs)},)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        for wanted in request["resources"]:
            if wanted["kind"] == "node-resume":
                for name in wanted["nodes"]:
                    if self.state(name).answers:
                        self.nodes[name] = ("IDLE", "", "")
            if wanted["kind"] == "node-drain":
                for name in wanted["nodes"]:
                    self.nodes[name] = ("IDLE+DRAIN", f"slurmfab: {wanted['text']}", "root")
        return super().outcomes(host, request)

    def state(self, name: str) -> NodeState:
        """A node's state."""
        return NodeState(flags(self.nodes[name][0]))

    def shown(self, name: str) -> str:
        """A node's line."""
        state, reason, by = self.nodes[name]
        used = 1 if any(f"|{name}|" in line for line in self.jobs) else 0
        end = f" Reason={reason} [{by}@2026-11-21T09:00:00]" if reason else ""
        return f"NodeName={name} CPUAlloc={used} CPUTot=4 RealMemory=15000 State={state} Partitions=main{end}\n"


def job_line(number: int, node: str, user: str = "ann") -> str:
    """The line of a job that runs on a node."""
    return f"{number}|{number}|{user}|main|RUNNING|None|1|1|1|0:05|1:00|{node}|cpu=1|N/A|N/A|N/A|x|"
