"""`--drain-first`: drain nodes and partitions before a change that would harm their jobs; resume the nodes after it.

Nodes that a run drains get a reason of their own. This run, or a later one if this one is interrupted, resumes the
nodes with that reason alone. So nodes that an administrator drained stay drained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.hostlist import fold, shell_word
from slurmfab.base.objections import NUMBERS
from slurmfab.base.program_name import FAB
from slurmfab.core.engine import job_waiting
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.node_changes import change
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import request_apply
from slurmfab.core.engine.run import Run
from slurmfab.core.impact.disruptive_changes import Disruption
from slurmfab.core.plan import mig
from slurmfab.core.status.snapshot import Job, Snapshot
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.client.commands import update_partition
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain, PartitionDrain
from slurmfab.on_hosts.agent.nodes.resume import NodeResume
from slurmfab.on_hosts.agent.nodes.states import FOR_CHANGE

RESUME_SECONDS = 60.0
"""Seconds that a node may take until it answers after the change: slurmd retries to register within that time."""

STRANGERS = "a UID or GID of the cluster is somebody else's there"
"""The reason of nodes that are drained for it."""

SUBJECTS = {
    "node-removed": "the set of nodes", "node-cores": "its cores", "node-gres": "its Gres",
    "partition-removed": "partitions", "private-tmp-moved": "where jobs have their /tmp", mig.CAPABILITY: mig.SUBJECT,
}  # fmt: skip
"""What a disruption changes, for names of disruptions that are not keys of slurm.conf."""


@dataclass(frozen=True)
class DrainTarget:
    """Nodes and partitions that must have no jobs before a change."""

    nodes: tuple[str, ...]
    partitions: tuple[str, ...]  # partitions that the change removes
    subject: str  # what changes, such as `SelectType`, for the reason of drained nodes

    @property
    def reason(self) -> str:
        """The reason that drained nodes get."""
        return f"{FOR_CHANGE}{self.subject}"

    @property
    def text(self) -> str:
        """The nodes and partitions as text."""
        names = (*([fold(self.nodes)] if self.nodes else ()), *(f"partition {name}" for name in self.partitions))
        return " and ".join(names)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to drain."""
        return bool(self.nodes or self.partitions)

    def jobs(self, slurm: Snapshot) -> tuple[Job, ...]:
        """The jobs that run on these nodes or in these partitions."""
        closed, held = set(self.partitions), set(self.nodes)
        running = (job for job in slurm.jobs if job.nodes)
        return tuple(job for job in running if closed.intersection(job.partitions) or held.intersection(job.nodes))

    def busy(self, slurm: Snapshot) -> tuple[str, ...]:
        """The nodes and partitions that still have jobs."""
        nodes = (name for name in self.nodes if name in slurm.by_name and not slurm.by_name[name].is_empty)
        partitions = {partition for job in slurm.jobs if job.nodes for partition in job.partitions}
        return (*nodes, *(name for name in self.partitions if name in partitions))


def target_of(found: Iterable[Disruption], allowed: frozenset[str], slurm: Snapshot) -> DrainTarget:
    """The nodes and partitions to drain before a change, where draining avoids the harm.

    If a change harms jobs on any node, all nodes are drained, since jobs could start on each of them. A partition that
    is removed is drained itself, since its nodes may be in other partitions too. If the user allowed a disruption,
    running jobs are waited for as well; only its pending jobs are lost. `found`: the disruptions, none of which is
    refused. `allowed`: names of the disruptions that the user allowed.
    """
    helped = [disruption for disruption in found if disruption.helped_by_draining or disruption.name in allowed]
    left = [disruption for disruption in helped if any(job.nodes for job in disruption.jobs)]
    nodes = dict.fromkeys(
        node for disruption in left if not disruption.partitions for job in disruption.jobs for node in job.nodes
    )
    if any(disruption.everywhere for disruption in left):
        nodes.update(dict.fromkeys(node.name for node in slurm.nodes))
    subjects = dict.fromkeys(SUBJECTS.get(disruption.name, disruption.name) for disruption in left)
    partitions = dict.fromkeys(name for disruption in left for name in disruption.partitions)
    return DrainTarget(tuple(nodes), tuple(partitions), ", ".join(subjects))


def drain_and_wait(run: Run, target: DrainTarget, slurm: Snapshot, pause: Callable[[float], None] = time.sleep) -> None:
    """Drain nodes and partitions, and wait without a limit until their last job has ended.

    `run`: the run; gains a step of the controller's. Raises DeployFailed if Slurm does not drain them. Raises HostError
    if the controller did not answer for some minutes.
    """
    wanted = (
        *((NodeDrain(target.nodes, target.reason, stamp(), for_change=True),) if target.nodes else ()),
        *((PartitionDrain(target.partitions),) if target.partitions else ()),
    )
    change(run, "drain", run.controller, *wanted)
    reported: list[tuple[str, ...]] = []

    def report_jobs(now: Snapshot) -> None:
        jobs = target.jobs(now)
        numbers = tuple(job.number for job in jobs)
        if jobs and numbers not in reported:
            reported.append(numbers)
            run.progress.line(f"Waiting for {job_waiting.format_jobs(jobs)} on {target.text}: {target.reason}.")

    report_jobs(slurm)
    job_waiting.wait_while(run, target.busy, pause=pause, on_snapshot=report_jobs)
    reconnect(run)


def drain_strangers(run: Run, known: Collection[str]) -> None:
    """Drain nodes that are left out since somebody else has the number of a user: jobs would run as that one.

    `known`: the nodes of Slurm as it is. Where that fails, the run says so and goes on.
    """
    nodes = tuple(host for host, about in run.doubted.items() if about == NUMBERS and host in known)
    if not nodes:
        return
    try:
        change(run, "drain", run.controller, NodeDrain(nodes, STRANGERS, stamp(), for_change=True))
        run.doubted.update(dict.fromkeys(nodes, ""))  # once is enough
        run.progress.line(f"{fold(nodes)}: drained: {STRANGERS}. Once that is right: {FAB} resume {fold(nodes)}.")
    except SlurmfabError as error:
        run.progress.line(f"{fold(nodes)}: could not be drained ({error}), and jobs of users may run as others there.")


def reconnect(run: Run) -> None:
    """Send each host a request, so that the connection to a host that restarted during the wait is made again."""
    for _ in on_each(run.remaining(run.hosts), lambda host: request_apply(run, host, (), dry_run=True)):
        pass


def resume_drained(run: Run, nodes: tuple[str, ...]) -> None:
    """Resume the nodes that this deployment, or an interrupted one, drained for a change.

    Args:
        run: gains a step; a node that does not come back into service is a failure in it.
        nodes: compute nodes whose changes are done.
    """
    begun = time.monotonic()
    run.progress.begin("resuming", (run.controller,))
    wanted = NodeResume(nodes, seconds=RESUME_SECONDS, after_change=True)
    step = Step("resume", run.controller, tuple(request_apply(run, run.controller, [wanted], dry_run=False)))
    if step.differs:
        run.record_steps(Step(step.phase, step.host, step.outcomes, time.monotonic() - begun))
    run.progress.host_done(run.controller, step)


def still_drained(slurm: Snapshot) -> tuple[str, ...]:
    """The nodes that a deployment drained for a change and did not resume."""
    return tuple(node.name for node in slurm.nodes if node.state.is_for_change)


def format_still_drained(target: DrainTarget, before: Snapshot) -> str:
    """The message about nodes and partitions that are still drained when a run ends early.

    Args:
        target: what the run drained; nodes that an administrator had drained before are not named.
        before: Slurm before the run drained anything.
    """
    others = {node.name for node in before.nodes if node.state.is_set_by_person}
    ours = DrainTarget(tuple(node for node in target.nodes if node not in others), target.partitions, target.subject)
    if not ours.is_needed:
        return f"{target.text}: drained before this run; left drained."
    ways = [f"{FAB} resume {shell_word(ours.nodes)}"] if ours.nodes else []
    ways += [" ".join(update_partition(name, "State=UP")) for name in ours.partitions]
    return (
        f"{ours.text}: still drained for this change. To continue: run the same command again; to resume: "
        f"{'; '.join(ways)}."
    )
