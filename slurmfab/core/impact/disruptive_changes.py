"""Disruptive changes: which changes hurt jobs, why, which jobs, and the options that allow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.impact.restart_requirements import (
    CORES,
    REEXEC,
    is_spelled_out,
    loses_devices,
    turns_to_ipv6,
    was_there,
)
from slurmfab.core.impact.slurm_diff import NODE_LINE, PARTITION_LINE, SETTING, Difference
from slurmfab.core.status.snapshot import Job

SHOWN_JOBS = 8  # how many jobs of one disruption a refusal lists; it counts the others
Hurt = Callable[[Difference, Iterable[Job]], tuple[Job, ...]]  # a function that picks the jobs that a difference hurts


class HurtJob(NamedTuple):
    """A job that a change would harm."""

    id: str  # as squeue shows it
    user: str  # its owner
    state: str  # Slurm's word
    partitions: tuple[str, ...]  # its partitions; several while it waits for one of them
    nodes: str  # where it runs, as a hostlist; empty while it waits


@shows("name", Key("change", "what"), "reason", "ways", Key("jobs", "hurt_jobs"))
@dataclass(frozen=True)
class Disruption:
    """A change that would harm jobs."""

    name: str  # as `--allow NAME` takes it, such as `SlurmdSpoolDir` or `partition-removed`
    what: str  # the changes, such as `partition debug: removed`
    reason: str  # what that does to jobs
    jobs: tuple[Job, ...] = ()  # the jobs that it hurts; empty where it is disruptive without jobs
    # the nodes that `--drain-first` drains and waits for; empty where draining does not help
    drains: tuple[str, ...] = ()
    # whether it hurts jobs on any node, so that all nodes are drained and not only `drains`; otherwise the next job
    # would start on another node
    everywhere: bool = False
    # the removed partitions; `--drain-first` closes them and waits for their jobs, without draining nodes
    partitions: tuple[str, ...] = ()
    only_drained: bool = False  # whether no option does it under running jobs

    @property
    def helped_by_draining(self) -> bool:
        """Whether draining nodes first avoids the harm."""
        return bool(self.drains)

    @property
    def ways(self) -> tuple[str, ...]:
        """The options with which a deployment does it, the one that hurts least first."""
        allow = f"--allow {self.name}"
        if self.helped_by_draining:
            return ("--drain-first",) if self.only_drained else ("--drain-first", allow)
        # Where pending jobs are hurt too, draining saves at least the running ones.
        return (f"--drain-first {allow}", allow) if any(job.nodes for job in self.jobs) else (allow,)

    @property
    def hurt_jobs(self) -> tuple[HurtJob, ...]:
        """The jobs that it would harm."""
        return tuple(
            HurtJob(job.id, job.user, job.state, job.partitions, "" if job.is_pending else job.node_list)
            for job in self.jobs
        )


def all_running(_: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """All running jobs."""
    return tuple(job for job in jobs if job.nodes)


def all_jobs(_: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """All jobs, running or pending."""
    return tuple(jobs)


def on_nodes(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs that run on the nodes of the difference."""
    about = frozenset(difference.nodes)
    return tuple(job for job in jobs if about.intersection(job.nodes))


def with_devices(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs that have devices on these nodes; for devices other than GPUs, all jobs, as squeue shows only GPUs."""
    kinds = {
        entry.split(":")[0] for entry in {*difference.actual.split(",")} ^ {*difference.wanted.split(",")} if entry
    }
    return tuple(job for job in on_nodes(difference, jobs) if job.gpus or kinds != {"gpu"})


def of_partition(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs that run or wait in the partition."""
    return tuple(job for job in jobs if difference.name in job.partitions)


def shut_out(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs that wait in the partition, for an account that may not use it any more."""
    named = {one.strip().lower() for one in difference.wanted.split(",")}
    is_allowed = difference.key == ALLOW_ACCOUNTS
    if is_allowed and named & {"", "all"}:
        return ()
    return tuple(
        job
        for job in of_partition(difference, jobs)
        if job.is_pending and job.account and (job.account.lower() in named) != is_allowed
    )


def no_job(_: Difference, __: Iterable[Job]) -> tuple[Job, ...]:
    """No job: the harm is of another kind."""
    return ()


@dataclass(frozen=True)
class DisruptionRule:
    """A kind of disruptive change."""

    name: str  # as `--allow` takes it; for a setting, its key
    is_about: Callable[[Difference], bool]  # whether a difference is of this kind
    reason: str  # why it hurts; full sentences that follow the change itself
    hurt: Hurt = all_running  # which jobs it hurts
    without_jobs: bool = False  # whether it is disruptive where it hurts no job
    since: tuple[int, int] = (0, 0)  # the first version of Slurm in which it hurts


def of_key(name: str) -> Callable[[Difference], bool]:
    """Whether a difference is one of this key of slurm.conf."""
    return lambda one: one.kind == SETTING and one.name == name


def setting(name: str, reason: str, hurt: Hurt = all_running) -> DisruptionRule:
    """The rule for one key of slurm.conf."""
    return DisruptionRule(name, of_key(name), reason, hurt)


ALLOW_ACCOUNTS, DENY_ACCOUNTS = "AllowAccounts", "DenyAccounts"
PRIVATE = (
    "New steps of a running job fail, or see another /tmp than the job's, because they look for it where the new files "
    "say."
)
"""What happens to running jobs when the jobs' own directories move."""

RULES = (
    DisruptionRule(
        "ClusterName",
        lambda difference: of_key("ClusterName")(difference) and was_there(difference),
        "Slurm's accounts depend on that name, and slurmctld refuses the state directory of another cluster. If you "
        "allow it, slurmfab removes the mark of the old name there while slurmctld is stopped; the jobs stay.",
        no_job,
        without_jobs=True,
    ),
    DisruptionRule(
        "AccountingStorageHost",
        lambda one: of_key("AccountingStorageHost")(one) and bool(one.actual and one.wanted),
        "The job history, the accounts and the limits are in the database of that slurmdbd. They do not move to the "
        "other one, which starts without any unless you moved the database before.",
        no_job,
        without_jobs=True,
    ),
    setting(
        "SlurmdSpoolDir",
        "A slurmd with another spool directory does not find the running steps: Slurm can no longer end their jobs, "
        "and their processes stay behind.",
    ),
    setting(
        "SelectType", "Slurm may lose all jobs, because each plugin saves their state in its own format.", all_jobs
    ),
    setting("SwitchType", "Slurm may lose all jobs, and running steps must be restarted.", all_jobs),
    setting(
        "AuthType", "Daemons and running steps no longer accept each other's credentials, and the steps do not end."
    ),
    setting("CredType", "Running steps and their daemons no longer accept each other's credentials."),
    setting("TLSType", "Running steps and their daemons can no longer talk to each other."),
    setting(
        "SlurmctldPort",
        "Running srun and salloc, and up to Slurm 23.02 the steps of all jobs, report their end to the old port, where "
        "no daemon listens: the nodes stay allocated.",
    ),
    DisruptionRule(
        "controller-ipv6",
        lambda one: of_key("SlurmctldHost")(one) and turns_to_ipv6(one),
        "Running steps get the controller's new address, but use IPv4 alone until they end: they cannot report their "
        "end, and the nodes stay allocated.",
        since=REEXEC,
    ),
    setting("ProctrackType", "Running steps are tracked by the old plugin, and may not be ended cleanly."),
    setting("JobAcctGatherType", "The usage of running steps so far is lost or counted wrongly."),
    setting("JobContainerType", PRIVATE),
    setting("NamespaceType", PRIVATE),
    DisruptionRule(
        "private-tmp-moved", lambda one: (one.file, one.name) == ("job_container.conf", "BasePath"), PRIVATE
    ),
    DisruptionRule(
        "partition-removed",
        lambda difference: difference.kind == PARTITION_LINE and difference.is_removed,
        "slurmctld ends all jobs that run or wait in a removed partition.",
        of_partition,
    ),
    DisruptionRule(
        "partition-accounts",
        lambda one: one.kind == PARTITION_LINE and one.key in (ALLOW_ACCOUNTS, DENY_ACCOUNTS),
        "Jobs that wait there for other accounts stay in the queue (AccountNotAllowed).",
        shut_out,
    ),
    DisruptionRule(
        "node-removed",
        lambda difference: difference.kind == NODE_LINE and difference.is_removed,
        "slurmctld ends the jobs of a removed node and those that wait for it by name; their processes stay behind. To "
        f"wait for the jobs and clean the node: {FAB} remove-node.",
        on_nodes,
    ),
    DisruptionRule(
        "node-cores",
        lambda difference: difference.kind == NODE_LINE and difference.key in CORES,
        "slurmctld aborts the jobs of a node whose number of sockets or cores changes.",
        on_nodes,
    ),
    DisruptionRule(
        "node-gres",
        lambda difference: difference.kind == NODE_LINE and difference.key == "Gres" and loses_devices(difference),
        "slurmctld aborts the jobs that have devices of a node whose number of devices changes.",
        with_devices,
    ),
)
"""All kinds of disruptive changes that Slurm's files can hold."""

NAMES = tuple(rule.name for rule in RULES)

LOST_LIMITS = "lost-limits"
"""A disruption of another kind: with this node's control groups, slurm.conf would hold no job to its limits.

A deployment leaves such a node out; see `slurmfab.core.plan.preflight.cgroups`."""

LOW_MEMORY = "low-memory"
"""Another of its own kind: all jobs would get much less memory by default (DefMemPerCPU), because of a new node.

A deployment leaves such a node out; see `slurmfab.core.plan.preflight.default_memory`."""

HOST_IN_USE = "host-in-use"
"""Another of its own kind: a host is taken from another cluster.

A deployment refuses such hosts; see `slurmfab.core.plan.preflight.other_clusters`."""

UNKNOWN_NODES = "unknown-nodes"
"""Another of its own kind: nodes are removed that somebody added from another copy of the cluster file.

Runs refuse that; see `slurmfab.core.engine.older_copy`."""

LOST_ACCOUNTS = "jobs-without-account"
"""Another of its own kind: jobs of users who have no account, where Slurm begins to ask for one.

See `slurmfab.core.plan.lost_accounts`."""

REGISTRY_AUTHORITY = "registry-authority"
"""Another of its own kind: hosts get to trust another authority of the image registry than the one in the lock.

A deployment leaves the registry's host out; see `slurmfab.core.plan.registry_authority`."""

KNOWN = (
    *NAMES,
    LOST_LIMITS,
    LOW_MEMORY,
    HOST_IN_USE,
    UNKNOWN_NODES,
    REGISTRY_AUTHORITY,
    LOST_ACCOUNTS,
)  # the names that `--allow` takes


def disruptions(
    differences: Iterable[Difference], version: SlurmVersion, jobs: Iterable[Job]
) -> tuple[Disruption, ...]:
    """The disruptions by `PlanInput.differences` for the present jobs; empty when no job is hurt."""
    known = tuple(difference for difference in differences if not is_spelled_out(difference, version))
    there = tuple(jobs)
    rules = (rule for rule in RULES if rule.since <= (version.major, version.minor))
    return tuple(found for rule in rules if (found := disruption_by(rule, known, there)))


def disruption_by(rule: DisruptionRule, differences: Iterable[Difference], jobs: Sequence[Job]) -> Disruption | None:
    """The disruption of one kind by these differences; `None` when no job is hurt."""
    about = tuple(difference for difference in differences if rule.is_about(difference))
    hurt = dict.fromkeys(job for difference in about for job in rule.hurt(difference, jobs))
    if not hurt and not (about and rule.without_jobs):
        return None
    # Jobs that wait in a partition are hurt as well, and draining nodes does not save them.
    waits = any(job.is_pending for job in hurt)
    nodes = () if waits else tuple(dict.fromkeys(node for job in hurt for node in job.nodes))
    closed = tuple(difference.name for difference in about) if rule.hurt is of_partition else ()
    what = "; ".join(map(str, about))
    return Disruption(rule.name, what, rule.reason, tuple(hurt), nodes, rule.hurt in (all_running, all_jobs), closed)


def refused(found: Iterable[Disruption], approvals: Approvals) -> tuple[Disruption, ...]:
    """Disruptions that are neither allowed by name nor avoided by draining first."""
    return tuple(
        disruption
        for disruption in found
        if disruption.name not in approvals.allowed and not (approvals.drain_first and disruption.helped_by_draining)
    )


def refusal(found: Iterable[Disruption], approvals: Approvals, command: str = "") -> str:
    """Why a deployment is refused, for people; empty when nothing is `refused`.

    `command`: the task that takes the options that allow them; empty where it is the one that is refused.
    """
    stopping = refused(found, approvals)
    if not stopping:
        return ""
    return "\n".join(line for disruption in stopping for line in format_disruption(disruption, command))


def format_disruption(disruption: Disruption, command: str = "") -> tuple[str, ...]:
    """A disruption in lines: change, reason, jobs that it hurts, and how to proceed, by `command` if another."""
    options = disruption.ways
    ways = " or ".join(f"{FAB} {command} {option}" for option in options) if command else f"add {' or '.join(options)}"
    return (*harm(disruption), f"    To proceed anyway: {ways}.")


def harm(disruption: Disruption) -> tuple[str, ...]:
    """A disruption in lines: change and reason, and the jobs that it hurts."""
    return (f"{disruption.what}: {disruption.reason}", *hurt_jobs(disruption.jobs))


def hurt_jobs(jobs: Sequence[Job]) -> tuple[str, ...]:
    """The jobs that are hurt, a line each, and a line that counts the rest."""
    lines = [f"    job {job.id} of {job.user}, {place(job)}" for job in jobs[:SHOWN_JOBS]]
    if len(jobs) > SHOWN_JOBS:
        rest = jobs[SHOWN_JOBS:]
        users = sorted({job.user for job in rest})
        whose = ", ".join(users[:SHOWN_JOBS]) + (" and others" if len(users) > SHOWN_JOBS else "")
        nodes = {node for job in rest for node in job.nodes}
        where = f", on {fold(nodes)}" if nodes else ""
        lines.append(f"    and {len(rest)} more jobs of {whose}{where}")
    return tuple(lines)


def place(job: Job) -> str:
    """Where a job runs, or that it waits."""
    return f"on {job.node_list}" if job.nodes else f"{job.state.lower()} in {','.join(job.partitions)}"


def require_known(approvals: Approvals) -> None:
    """Refuse unknown names of `--allow`. Raises InputError: with the known names."""
    unknown = sorted(approvals.allowed - set(KNOWN))
    if unknown:
        raise InputError(f"--allow {', '.join(unknown)}: unknown name (known: {', '.join(KNOWN)}).")
