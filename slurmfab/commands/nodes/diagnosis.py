"""Why a compute node is out of service: a diagnosis from its host, from Slurm and from the comparison with the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.core.engine.report import Step
from slurmfab.core.impact import hardware_changes
from slurmfab.core.impact.drift_kinds import acceptance
from slurmfab.core.plan.preflight.gres import describe_driverless as driverless_text
from slurmfab.core.status.snapshot import Job, Node
from slurmfab.on_hosts.agent.core.resource import OK, Outcome
from slurmfab.on_hosts.agent.nodes.states import NodeState, parse_reason

KEY_FILE = "file:/etc/munge/munge.key"
KILL_FAILED = "Kill task failed"


@dataclass(frozen=True)
class Leftovers:
    """What jobs left running on a node, and what its health check finds."""

    steps: tuple[str, ...] = ()  # job steps that have a slurmstepd there, as `JOB.STEP`
    hung: tuple[str, ...] = ()  # names of job processes in uninterruptible sleep, which cannot be killed
    unhealthy: tuple[str, ...] = ()  # problems that its health check finds


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a node."""

    node: str
    repairable: tuple[str, ...] = ()  # problems that a deployment to the host repairs
    blocking: tuple[str, ...] = ()  # problems that it does not repair, with what to try
    past: str = ""  # why the node went out of service, if nothing is wrong any more

    @property
    def text(self) -> str:
        """All problems in one line, or the past reason; empty if there is neither."""
        return "; ".join((*self.blocking, *self.repairable)) or self.past


@dataclass(frozen=True)
class Evidence:
    """What is known about a node whose host answers."""

    node: Node
    pinned: HostLock
    facts: HostFacts
    steps: tuple[Step, ...] = ()  # the comparison of the host with its plan
    jobs: tuple[Job, ...] = ()  # the jobs that have the node, according to Slurm
    leftovers: Leftovers = Leftovers()
    roles: tuple[str, ...] = ("compute",)  # the host's roles, as `Cluster.roles` has them


def diagnose(known: Evidence) -> Diagnosis:
    """Find out what is wrong with a node."""
    differing = [(step.phase, outcome) for step in known.steps for outcome in step.outcomes if outcome.status != OK]
    ids = {outcome.id for _, outcome in differing}
    repairable = tuple(
        describe_difference(phase, outcome) for phase, outcome in differing if not is_consequence(outcome, ids)
    )
    blocking = (
        *lost_hardware(known),
        *unended_jobs(known.node, known.jobs, known.leftovers),
        *health_problems(known.leftovers),
    )
    return Diagnosis(known.node.name, tuple(dict.fromkeys(repairable)), blocking, past_reason(known.node.state))


def is_consequence(outcome: Outcome, ids: Iterable[str]) -> bool:
    """Whether a daemon is out of date only because of a file that differs, which is reported itself."""
    files = ("slurm-files:/etc/slurm", "shared-files:/etc/slurm")
    before = {"service:munge": (KEY_FILE,), "service:slurmd": files}.get(outcome.id, ())
    return not set(before).isdisjoint(ids) and {change.name for change in outcome.changes} == {"loaded"}


def describe_difference(phase: str, outcome: Outcome) -> str:
    """One difference from the plan, as a problem of the node."""
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
    if outcome.id.startswith(("slurm-files:", "shared-files:")):
        files = [name for name in changed if "." in name and " " not in name]
        verb = "differs" if len(files) == 1 else "differ"
        return f"its {' and '.join(files) or 'Slurm files'} {verb} from the cluster's"
    return f"{phase}: {outcome.id} differs from the plan" + (f" ({outcome.message})" if outcome.message else "")


def lost_hardware(known: Evidence) -> tuple[str, ...]:
    """The hardware that a node has lost; Slurm would drain the node again because of it."""
    node, pinned, facts = known.node, known.pinned, known.facts
    was, now = pinned.hardware, facts.hardware
    gone = []
    if was and now and now.CPUs < was.CPUs:
        gone.append(f"{now.CPUs} of {was.CPUs} CPUs")
    if now and now.RealMemory < node.memory:
        gone.append(f"{now.RealMemory} MiB of memory instead of the {node.memory} in slurm.conf")
    lost = [change.description for change in hardware_changes.changes(pinned.gpus, facts.gpus) if change.is_loss]
    if len(facts.gpus) < len(pinned.gpus):
        gone.append(f"{len(facts.gpus)} of {len(pinned.gpus)} GPUs")
    if not gone and not lost:
        return ()
    loss = f"it has only {' and '.join(gone)}" if gone else "it has other GPUs"
    driverless = [driverless_text(facts.driverless_gpus)] if lost and facts.driverless_gpus else []
    which = f" ({', '.join([*lost, *driverless])})" if lost else ""
    return (f"{loss}{which}. Repair the hardware; if this is intended: {acceptance(node.name)}",)


def unended_jobs(node: Node, jobs: tuple[Job, ...], leftovers: Leftovers) -> tuple[str, ...]:
    """Processes on a node that belong to ended jobs. `jobs`: the jobs that have the node, according to Slurm."""
    running = {job.number for job in jobs if job.state != "COMPLETING"}
    left = sorted({step.partition(".")[0] for step in leftovers.steps} - running, key=int)
    if not left or not (leftovers.hung or KILL_FAILED in node.state.reason):
        return ()
    which = f"job{'s' if len(left) > 1 else ''} {', '.join(left)}"
    hung = ", ".join(leftovers.hung)
    waits = f" ({hung} waits in the kernel, for example for a file server or a GPU)" if hung else ""
    return (
        f"processes of {which} do not end{waits}. End them there, or repair what they wait for; "
        f"if that does not help: {FAB} reboot {node.name}",
    )


def health_problems(leftovers: Leftovers) -> tuple[str, ...]:
    """The problems for which the node's health check would drain it again."""
    if not leftovers.unhealthy:
        return ()
    found = "; ".join(leftovers.unhealthy)
    return (f"its health check finds: {found}. When that is repaired, the health check resumes the node",)


def past_reason(state: NodeState) -> str:
    """Why a node is out of service, if nothing is wrong with it any more; empty for a node in service."""
    reason = state.reason
    has_less = "Low " in reason or "gres/" in reason or bool(state.flags & {"INVAL", "INVALID_REG"})
    rules = (
        (state.is_in_service, ""),
        (state.is_for_health, f"its health check found: {parse_reason(reason).text}; it finds nothing now"),
        (state.is_ours and state.is_drained, f"drained by {state.by or 'slurmfab'}: {parse_reason(reason).text}"),
        (state.is_set_by_person, f"{state.description} by {state.by or 'an unknown user'}: {reason}"),
        ("unexpectedly rebooted" in reason, "it was restarted without Slurm, and nothing is wrong now"),
        (KILL_FAILED in reason, "processes of a job took too long to end; they have ended now"),
        (has_less, f"it reported less than slurm.conf has ({reason or 'no reason'}), and has enough now"),
        (not state.answers, "slurmd runs, but slurmctld gets no answer; check for a firewall between them"),
    )
    otherwise = f"{state.description}{': ' + reason if reason else ''}; nothing is wrong with it now"
    return next((text for applies, text in rules if applies), otherwise)


def format_diagnoses(diagnoses: Mapping[str, str]) -> list[str]:
    """A line for each diagnosis, with all nodes that have it. `diagnoses`: the text of the diagnosis, by node."""
    groups = grouped((text, node) for node, text in diagnoses.items())
    return [f"{fold(nodes)}: {text}." for text, nodes in groups.items()]
