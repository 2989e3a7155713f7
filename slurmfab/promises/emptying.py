"""`--drain-first`: nodes and partitions emptied for a change that would hurt their jobs, and nodes given back after it.

What is drained bears a reason of its own, by which it is known again: by this run when it gives nodes back, and by a
later one if this one is cut off. So nothing goes back that somebody else took out of service, before or meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slurmfab.agent.node_drain import NodeDrain
from slurmfab.agent.node_resume import NodeResume
from slurmfab.agent.node_states import FOR_CHANGE
from slurmfab.agent.partition_drain import PartitionDrain
from slurmfab.asking import request_apply
from slurmfab.hostlist import fold
from slurmfab.nodes import draining
from slurmfab.nodes.changes import change
from slurmfab.promises.dangers import Danger
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.signature import stamp
from slurmfab.ssh.fan_out import on_each
from slurmfab.status.snapshot import Job, Snapshot

RESUME_SECONDS = 60.0
"""How long a node may take until it answers after the change: a slurmd that found no controller tries again by then."""

SUBJECTS = {
    "node-removed": "the set of nodes", "node-cores": "its cores", "node-gres": "its Gres",
    "partition-removed": "partitions", "private-tmp-moved": "where jobs have their /tmp",
}  # fmt: skip
"""What a danger is a change of, where its name is no key of slurm.conf."""


@dataclass(frozen=True)
class Emptying:
    """What has to be without jobs before a change.

    Args:
        nodes: compute nodes.
        partitions: those that are taken away.
        subject: what changes, for the reason of drained nodes.
    """

    nodes: tuple[str, ...]
    partitions: tuple[str, ...]
    subject: str

    @property
    def reason(self) -> str:
        """Why nodes are drained."""
        return f"a change of {self.subject}{FOR_CHANGE}"

    @property
    def words(self) -> str:
        """What is emptied, for people."""
        names = (*([fold(self.nodes)] if self.nodes else ()), *(f"partition {name}" for name in self.partitions))
        return " and ".join(names)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to empty."""
        return bool(self.nodes or self.partitions)

    def jobs(self, seen: Snapshot) -> tuple[Job, ...]:
        """The jobs that are waited for: those that have nodes."""
        closed, held = set(self.partitions), set(self.nodes)
        running = (job for job in seen.jobs if job.nodes)
        return tuple(job for job in running if closed.intersection(job.partitions) or held.intersection(job.nodes))

    def busy(self, seen: Snapshot) -> tuple[str, ...]:
        """The nodes and partitions that are not empty yet."""
        nodes = (name for name in self.nodes if name in seen.by_name and not seen.by_name[name].is_empty)
        partitions = {partition for job in seen.jobs if job.nodes for partition in job.partitions}
        return (*nodes, *(name for name in self.partitions if name in partitions))


def needed(found: Iterable[Danger], allowed: frozenset[str], seen: Snapshot) -> Emptying:
    """What has to be emptied before a change, as far as that helps.

    Where jobs anywhere would be hurt, that is every node that could be given another one meanwhile. A partition that
    goes is emptied by itself, for its nodes may have others. Of a danger that is accepted as well, the jobs that run
    are waited for, and only those that wait are left to it.

    Args:
        found: the dangers; none of them is refused.
        allowed: the names of those that are accepted.
        seen: Slurm now.
    """
    helped = [danger for danger in found if danger.helped_by_draining or danger.name in allowed]
    left = [danger for danger in helped if any(job.nodes for job in danger.jobs)]
    nodes = dict.fromkeys(node for danger in left if not danger.partitions for job in danger.jobs for node in job.nodes)
    if any(danger.everywhere for danger in left):
        nodes.update(dict.fromkeys(node.name for node in seen.nodes))
    subjects = dict.fromkeys(SUBJECTS.get(danger.name, danger.name) for danger in left)
    partitions = dict.fromkeys(name for danger in left for name in danger.partitions)
    return Emptying(tuple(nodes), tuple(partitions), ", ".join(subjects))


def empty(run: Run, emptying: Emptying, seen: Snapshot, pause: Callable[[float], None] = time.sleep) -> None:
    """Drain, and wait until the last job there has ended, however long that takes.

    Args:
        run: the run.
        emptying: what.
        seen: Slurm now.
        pause: waits for that many seconds.

    Raises:
        DeployFailed: Slurm does not drain.
        HostError: the controller has said nothing for some minutes.
    """
    wanted = (
        *((NodeDrain(emptying.nodes, emptying.reason, stamp(), for_change=True),) if emptying.nodes else ()),
        *((PartitionDrain(emptying.partitions),) if emptying.partitions else ()),
    )
    change(run, "drain", run.controller, *wanted)
    told: list[tuple[str, ...]] = []

    def tell(now: Snapshot) -> None:
        jobs = emptying.jobs(now)
        numbers = tuple(job.number for job in jobs)
        if jobs and numbers not in told:
            told.append(numbers)
            run.progress.line(f"Waiting for {draining.job_words(jobs)} on {emptying.words}: {emptying.reason}.")

    tell(seen)
    draining.wait_while(run, emptying.busy, pause=pause, tell=tell)
    wake(run)


def wake(run: Run) -> None:
    """Say a word to each host, so that one which was restarted during the wait is connected to anew when asked."""
    for _ in on_each(run.well(run.hosts), lambda host: request_apply(run, host, (), dry_run=True)):
        pass


def give_back(run: Run, nodes: tuple[str, ...]) -> None:
    """Resume those of the nodes that a deployment has drained for a change, this one or one that was cut off.

    Args:
        run: gains a step; a node that does not come back is a failure in it.
        nodes: compute nodes that are as wanted.
    """
    begun = time.monotonic()
    run.progress.begin("resuming", (run.controller,))
    wanted = NodeResume(nodes, seconds=RESUME_SECONDS, after_change=True)
    step = Step("resume", run.controller, tuple(request_apply(run, run.controller, [wanted], dry_run=False)))
    if step.differs:
        run.steps.append(Step(step.phase, step.host, step.outcomes, time.monotonic() - begun))
    run.progress.host_done(run.controller, step)


def still_drained(seen: Snapshot) -> tuple[str, ...]:
    """The nodes that a deployment has drained for a change and not given back."""
    return tuple(node.name for node in seen.nodes if node.state.is_for_change)


def way_back(emptying: Emptying, seen: Snapshot) -> str:
    """What to say of what stays drained when a run ends early; nodes that somebody else had drained are not its own.

    Args:
        emptying: what was drained.
        seen: Slurm before that.
    """
    others = {node.name for node in seen.nodes if node.state.is_somebodys}
    ours = Emptying(tuple(node for node in emptying.nodes if node not in others), emptying.partitions, emptying.subject)
    if not ours.is_needed:
        return f"{emptying.words}: drained by others before, and left so."
    ways = [f"fab resume {fold(ours.nodes)}"] if ours.nodes else []
    ways += [f"scontrol update PartitionName={name} State=UP" for name in ours.partitions]
    return (
        f"{ours.words}: still drained for this change. The same command goes on with it; to take the drain back: "
        f"{'; '.join(ways)}."
    )
