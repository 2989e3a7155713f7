"""Why a compute node is out of service: what its host, Slurm and the comparison with the plan say, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurmfab.agent.node_states import NodeState, said
from slurmfab.agent.resource import OK, Outcome
from slurmfab.facts import HostFacts
from slurmfab.fitness.gres import in_words as bare_in_words
from slurmfab.hostlist import fold
from slurmfab.lock import HostLock
from slurmfab.plans import gpu_changes
from slurmfab.plans.kinds_of_drift import acceptance
from slurmfab.report import Step
from slurmfab.status.snapshot import Job, Node

KEY_FILE = "file:/etc/munge/munge.key"
KILL_FAILED = "Kill task failed"


@dataclass(frozen=True)
class Leftovers:
    """What else a node tells of itself.

    Args:
        steps: job steps with a step daemon there, as `JOB.STEP`.
        hung: names of processes of jobs that no signal reaches.
        unwell: what its own health check finds there.
    """

    steps: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()
    unwell: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a node.

    Args:
        node: its name.
        mended: what a deployment to the host repairs.
        grave: what it does not, and what to try.
        settled: what it was, where nothing is wrong any more.
    """

    node: str
    mended: tuple[str, ...] = ()
    grave: tuple[str, ...] = ()
    settled: str = ""

    @property
    def words(self) -> str:
        """All of it, in one line; empty when there is nothing to tell."""
        return "; ".join((*self.grave, *self.mended)) or self.settled


@dataclass(frozen=True)
class Evidence:
    """What is known of a node whose host answers.

    Args:
        node: as Slurm sees it.
        pinned: what the lock has of it.
        facts: what the host says.
        steps: the comparison of the host with its plan.
        jobs: those that hold it, in Slurm's eyes.
        leftovers: what runs there of jobs.
        roles: of the host, as `Cluster.roles` has them.
    """

    node: Node
    pinned: HostLock
    facts: HostFacts
    steps: tuple[Step, ...] = ()
    jobs: tuple[Job, ...] = ()
    leftovers: Leftovers = Leftovers()
    roles: tuple[str, ...] = ("compute",)


def diagnose(known: Evidence) -> Diagnosis:
    """What is wrong with a node."""
    differing = [(step.phase, outcome) for step in known.steps for outcome in step.outcomes if outcome.status != OK]
    ids = {outcome.id for _, outcome in differing}
    mended = tuple(in_words(phase, outcome) for phase, outcome in differing if not follows(outcome, ids))
    grave = (
        *shrunk(known),
        *hanging(known.node, known.jobs, known.leftovers),
        *unwell(known.leftovers),
    )
    return Diagnosis(known.node.name, tuple(dict.fromkeys(mended)), grave, settled(known.node.state))


def follows(outcome: Outcome, ids: Iterable[str]) -> bool:
    """Whether a daemon is only out of date because of files that differ, which is told already."""
    before = {"service:munge": KEY_FILE, "service:slurmd": "slurm-files:/etc/slurm"}.get(outcome.id, "")
    return before in ids and {change.name for change in outcome.changes} == {"loaded"}


def in_words(phase: str, outcome: Outcome) -> str:
    """One difference from the plan as a cause."""
    changed = {change.name: change.actual for change in outcome.changes}
    if outcome.id in ("service:slurmd", "service:munge"):
        daemon = {"service:slurmd": "slurmd", "service:munge": "munged"}[outcome.id]
        if "running" in changed:
            return f"{daemon} is not running ({changed['running']})"
        if "loaded" in changed:
            return f"{daemon} runs with an {changed['loaded']} than the disk holds"
        return f"{daemon} would not start at boot"
    if outcome.id == KEY_FILE:
        return "its munge key is not the controller's"
    if outcome.id.startswith("slurm-files:"):
        files = [name for name in changed if "." in name and " " not in name]
        return f"its {' and '.join(files) or 'Slurm files'} {'are' if len(files) > 1 else 'is'} not the cluster's"
    return f"{phase}: {outcome.id} is not as wanted" + (f" ({outcome.message})" if outcome.message else "")


def shrunk(known: Evidence) -> tuple[str, ...]:
    """What of a node's hardware is gone; Slurm would only take it out of service again."""
    node, pinned, facts = known.node, known.pinned, known.facts
    was, now = pinned.hardware, facts.hardware
    gone = []
    if was and now and now.CPUs < was.CPUs:
        gone.append(f"{now.CPUs} of {was.CPUs} CPUs")
    if now and now.RealMemory < node.memory:
        gone.append(f"{now.RealMemory} MiB of memory where slurm.conf promises {node.memory}")
    lost = [change.words for change in gpu_changes.changes(pinned.gpus, facts.gpus) if change.is_loss]
    if len(facts.gpus) < len(pinned.gpus):
        gone.append(f"{len(facts.gpus)} of {len(pinned.gpus)} GPUs")
    if not gone and not lost:
        return ()
    words = f"it has only {' and '.join(gone)}" if gone else "it has other GPUs"
    bare = [bare_in_words(facts.bare_gpus)] if lost and facts.bare_gpus else []
    which = f" ({', '.join([*lost, *bare])})" if lost else ""
    return (f"{words}{which}. Mend the hardware; if it is meant to be so: {acceptance(known.roles, node.name)}",)


def hanging(node: Node, jobs: tuple[Job, ...], leftovers: Leftovers) -> tuple[str, ...]:
    """What is left on a node of jobs that should have ended."""
    running = {job.number for job in jobs if job.state != "COMPLETING"}
    left = sorted({step.partition(".")[0] for step in leftovers.steps} - running, key=int)
    if not left or not (leftovers.hung or KILL_FAILED in node.state.reason):
        return ()
    which = f"job{'s' if len(left) > 1 else ''} {', '.join(left)}"
    hung = ", ".join(leftovers.hung)
    waits = f" ({hung} waits in the kernel, as for a file server or a GPU)" if hung else ""
    return (
        f"processes of {which} do not end{waits}. End them there, or let what they wait for come back; "
        f"if nothing helps: fab reboot {node.name}",
    )


def unwell(leftovers: Leftovers) -> tuple[str, ...]:
    """What the node's health check would drain it for, again."""
    if not leftovers.unwell:
        return ()
    found = "; ".join(leftovers.unwell)
    return (f"its health check finds: {found}. Once that is mended, it comes back by itself",)


def settled(state: NodeState) -> str:
    """What took a node out of service on which nothing is wrong any more; empty for one that is in service."""
    reason = state.reason
    has_less = "Low " in reason or "gres/" in reason or bool(state.flags & {"INVAL", "INVALID_REG"})
    rules = (
        (state.is_in_service, ""),
        (state.is_for_health, f"its health check had found: {said(reason)[0]}; that is over"),
        (state.is_ours and state.is_drained, f"drained by {state.by or 'slurmfab'}: {said(reason)[0]}"),
        (state.is_somebodys, f"{state.words} by {state.by or 'somebody'}: {reason}"),
        ("unexpectedly rebooted" in reason, "it was restarted while Slurm counted on it, and is well now"),
        (KILL_FAILED in reason, "processes of a job took too long to end, and are gone now"),
        (has_less, f"it had reported less than slurm.conf says ({reason or 'no reason'}), and has enough now"),
        (not state.answers, "slurmd runs and yet slurmctld hears nothing of it; a firewall between them?"),
    )
    otherwise = f"{state.words}{': ' + reason if reason else ''}; nothing is wrong with it now"
    return next((words for holds, words in rules if holds), otherwise)


def told(diagnoses: Mapping[str, str]) -> list[str]:
    """What is wrong with nodes, a line for each, or for all that have the same."""
    groups: dict[str, list[str]] = {}
    for node, words in diagnoses.items():
        groups.setdefault(words, []).append(node)
    return [f"{fold(nodes)}: {words}." for words, nodes in groups.items()]
