"""The changes that hurt: which, why, whom, and what somebody may say to have them made all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slurmfab.consent import Consent
from slurmfab.errors import InputError
from slurmfab.hostlist import fold
from slurmfab.promises.conf import NODE_LINE, PARTITION_LINE, SETTING, Difference
from slurmfab.promises.needs import CORES, is_spelled_out, loses_devices, was_there
from slurmfab.slurm.versions import SlurmVersion
from slurmfab.status.snapshot import Job

SHOWN_JOBS = 8
"""How many jobs of one danger a refusal names one by one."""

Hurt = Callable[[Difference, Iterable[Job]], tuple[Job, ...]]
"""Which of the jobs a difference hurts."""


@dataclass(frozen=True)
class Danger:
    """A change that hurts, and whom.

    Args:
        name: as `--allow NAME` takes it, such as `SlurmdSpoolDir` or `partition-removed`.
        what: the changes, such as `partition debug: removed`.
        reason: why it hurts: full sentences.
        jobs: those that it hurts; empty where it is dangerous without jobs.
        drains: the nodes that `--drain-first` drains, and on which it waits for jobs to end; empty where draining
            does not help.
        everywhere: whether it would hurt jobs on any node, so that all nodes have to be drained and not only `drains`,
            or the next job would begin on another one.
        partitions: the partitions that are taken away; `--drain-first` closes these and waits for their jobs, and
            drains no node for them.
    """

    name: str
    what: str
    reason: str
    jobs: tuple[Job, ...] = ()
    drains: tuple[str, ...] = ()
    everywhere: bool = False
    partitions: tuple[str, ...] = ()

    @property
    def helped_by_draining(self) -> bool:
        """Whether waiting for the jobs on drained nodes takes the danger away."""
        return bool(self.drains)


def all_running(_: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Whatever runs on any node."""
    return tuple(job for job in jobs if job.nodes)


def all_jobs(_: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Whatever runs or waits."""
    return tuple(jobs)


def on_nodes(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Whatever runs on the nodes that the difference is about."""
    about = frozenset(difference.nodes)
    return tuple(job for job in jobs if about.intersection(job.nodes))


def with_devices(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Whatever has devices on these nodes; of other devices than GPUs it is not known who has them."""
    kinds = {
        entry.split(":")[0] for entry in {*difference.actual.split(",")} ^ {*difference.wanted.split(",")} if entry
    }
    return tuple(job for job in on_nodes(difference, jobs) if job.gpus or kinds != {"gpu"})


def of_partition(difference: Difference, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Whatever runs or waits in the partition."""
    return tuple(job for job in jobs if difference.name in job.partitions)


def nobody(_: Difference, __: Iterable[Job]) -> tuple[Job, ...]:
    """No job: the harm is another."""
    return ()


@dataclass(frozen=True)
class Row:
    """A kind of change that hurts.

    Args:
        name: as `--allow` takes it; of a setting, its key.
        is_about: which differences.
        reason: why: full sentences, after the change itself.
        hurt: whom.
        without_jobs: whether it is dangerous where it hurts no job.
    """

    name: str
    is_about: Callable[[Difference], bool]
    reason: str
    hurt: Hurt = all_running
    without_jobs: bool = False


def of_key(name: str) -> Callable[[Difference], bool]:
    """Whether a difference is one of this key of slurm.conf."""
    return lambda one: one.kind == SETTING and one.name == name


def setting(name: str, reason: str, hurt: Hurt = all_running) -> Row:
    """A row about one key of slurm.conf."""
    return Row(name, of_key(name), reason, hurt)


PRIVATE = (
    "Steps that a running job begins afterwards fail, or see another /tmp than the job's, since they look for it where "
    "the new files say."
)
"""What a change of the jobs' own directories does to those that run."""

ROWS = (
    Row(
        "ClusterName",
        lambda difference: of_key("ClusterName")(difference) and was_there(difference),
        "Slurm's accounts hang on that name, and slurmctld refuses a state directory of another cluster. If it is "
        "allowed, the mark of the old name is removed there while slurmctld is stopped; the jobs stay.",
        nobody,
        without_jobs=True,
    ),
    Row(
        "AccountingStorageHost",
        lambda one: of_key("AccountingStorageHost")(one) and bool(one.actual and one.wanted),
        "The history of jobs, the accounts and the limits are in the database of that slurmdbd and do not come along; "
        "another one begins with none, unless its database was brought there before.",
        nobody,
        without_jobs=True,
    ),
    setting(
        "SlurmdSpoolDir",
        "A slurmd with another spool directory does not find the steps that run: their jobs cannot be ended any more, "
        "and their processes go on as nobody's.",
    ),
    setting("SelectType", "Slurm may lose all jobs, since each plugin saves their state in its own way.", all_jobs),
    setting("SwitchType", "Slurm may lose all jobs, and running steps have to be restarted.", all_jobs),
    setting("AuthType", "Daemons and running steps do not believe each other any more, and the steps do not end."),
    setting("CredType", "Running steps and their daemons do not believe each other any more."),
    setting("TLSType", "Running steps and their daemons do not understand each other any more."),
    setting(
        "SlurmctldPort",
        "srun and salloc that run, and up to Slurm 23.02 the steps of all jobs, report their end to the old port, "
        "where nobody listens: the nodes stay taken.",
    ),
    setting("ProctrackType", "Running steps are tracked in the way that they began in, and may not be ended cleanly."),
    setting("JobAcctGatherType", "What running steps have used so far is lost or counted wrongly."),
    setting("JobContainerType", PRIVATE),
    setting("NamespaceType", PRIVATE),
    Row("private-tmp-moved", lambda one: (one.file, one.name) == ("job_container.conf", "BasePath"), PRIVATE),
    Row(
        "partition-removed",
        lambda difference: difference.kind == PARTITION_LINE and difference.is_removed,
        "slurmctld ends all jobs that run or wait in a partition that is no more.",
        of_partition,
    ),
    Row(
        "node-removed",
        lambda difference: difference.kind == NODE_LINE and difference.is_removed,
        "slurmctld ends the jobs of a node that is no more, and those that wait for it by name; processes go on there "
        "as nobody's. What waits for the jobs, and cleans the node: fab remove-node.",
        on_nodes,
    ),
    Row(
        "node-cores",
        lambda difference: difference.kind == NODE_LINE and difference.key in CORES,
        "slurmctld aborts the jobs of a node whose sockets or cores are counted otherwise.",
        on_nodes,
    ),
    Row(
        "node-gres",
        lambda difference: difference.kind == NODE_LINE and difference.key == "Gres" and loses_devices(difference),
        "slurmctld aborts the jobs that have devices of a node where these are counted otherwise.",
        with_devices,
    ),
)
"""All dangers that there are, as `--allow` knows them."""

NAMES = tuple(row.name for row in ROWS)

LOST_LIMITS = "lost-limits"
"""A danger of another kind: a node's control groups can do less, so that Slurm's files would hold no job to its limits.

A deployment leaves such a node out; see `slurmfab.slurm.cgroups.losing`."""

KNOWN = (*NAMES, LOST_LIMITS)
"""What `--allow` takes."""


def dangers(differences: Iterable[Difference], version: SlurmVersion, jobs: Iterable[Job]) -> tuple[Danger, ...]:
    """The dangers of these differences, for the jobs that there are now; none when no job is hurt.

    Args:
        differences: as `Situation.differences` has them.
        version: of the installed Slurm.
        jobs: all that run or wait, as `status.snapshot` has them.
    """
    known = tuple(difference for difference in differences if not is_spelled_out(difference, version))
    there = tuple(jobs)
    return tuple(danger for row in ROWS if (danger := danger_of(row, known, there)))


def danger_of(row: Row, differences: Iterable[Difference], jobs: Sequence[Job]) -> Danger | None:
    """What a row says of these differences; `None` when nobody is hurt."""
    about = tuple(difference for difference in differences if row.is_about(difference))
    hurt = dict.fromkeys(job for difference in about for job in row.hurt(difference, jobs))
    if not hurt and not (about and row.without_jobs):
        return None
    # Who waits in a partition is hurt as well, and waits on no node.
    waits = any(job.is_pending for job in hurt)
    nodes = () if waits else tuple(dict.fromkeys(node for job in hurt for node in job.nodes))
    closed = tuple(difference.name for difference in about) if row.hurt is of_partition else ()
    what = "; ".join(map(str, about))
    return Danger(row.name, what, row.reason, tuple(hurt), nodes, row.hurt in (all_running, all_jobs), closed)


def refused(found: Iterable[Danger], consent: Consent) -> tuple[Danger, ...]:
    """Those of the dangers that nobody has agreed to: not allowed by name, and not drained first where that helps."""
    return tuple(
        danger
        for danger in found
        if danger.name not in consent.allowed and not (consent.drain_first and danger.helped_by_draining)
    )


def refusal(found: Iterable[Danger], consent: Consent) -> str:
    """Why a deployment is refused, for people; empty when nothing is `refused`."""
    stopping = refused(found, consent)
    if not stopping:
        return ""
    return "\n".join(line for danger in stopping for line in told(danger))


def told(danger: Danger) -> tuple[str, ...]:
    """A danger in lines: what and why, whom it would hurt, and what to say to have it all the same."""
    ways = " or ".join(allowances(danger))
    return (f"{danger.what}: {danger.reason}", *victims(danger.jobs), f"    To have it all the same: {ways}.")


def allowances(danger: Danger) -> tuple[str, ...]:
    """What somebody may say to have a dangerous change made: options of the command line, the gentle one first."""
    allow = f"--allow {danger.name}"
    if danger.helped_by_draining:
        return ("--drain-first", allow)
    # Where jobs that wait are hurt too, draining saves at least those that run.
    return (f"--drain-first {allow}", allow) if any(job.nodes for job in danger.jobs) else (allow,)


def victims(jobs: Sequence[Job]) -> tuple[str, ...]:
    """The jobs that are hurt, a line each, and how many more there are."""
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


def require_known(consent: Consent) -> None:
    """Refuse names behind --allow that stand for no danger.

    Raises:
        InputError: with those that there are.
    """
    unknown = sorted(consent.allowed - set(KNOWN))
    if unknown:
        raise InputError(f"--allow {', '.join(unknown)}: there is no such danger (known: {', '.join(KNOWN)}).")
