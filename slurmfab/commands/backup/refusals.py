"""Reasons to refuse a restoration: pure functions of the backup and of the state of the hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.cluster.slurm.window import reached, reaches
from slurmfab.commands.backup.archive import Backup

MOST_JOBS_NAMED = 20  # a message names this many jobs, and counts the others


@dataclass(frozen=True)
class PresentState:
    """The state of the hosts that a restoration would replace, but for what it put there before an interruption."""

    next_job_id: int = 0  # the id of the next job by slurmctld's state; 0 if there is no state, or there was no job yet
    is_running: bool = False
    newest_job: int = 0  # the highest job id in the accounting database; 0 if it has none
    # the job steps that run on compute nodes, as `JOB.STEP`, by node
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()  # compute nodes that did not answer, so that their job steps are not known


def version_refusal(written: str, installed: SlurmVersion) -> str:
    """The reason why the installed Slurm cannot read the state and the database of a backup; empty if it can.

    Source of the rule: Slurm's upgrade guide; see `slurmfab.cluster.slurm.window`. `written`: the version of Slurm that
    wrote the backup.
    """
    wrote = SlurmVersion.parse(written)
    if wrote == installed:
        return ""
    if wrote > installed:
        return (
            f"the backup is of Slurm {wrote}, and the hosts have {installed}: Slurm cannot read state that a newer "
            f"version wrote. Install Slurm {wrote} or newer."
        )
    if reaches(installed, wrote):
        return ""
    readable = reached(installed)
    return (
        f"the backup is of Slurm {wrote}, and the hosts have {installed}, which reads state of the {len(readable)} "
        f"release series before it ({', '.join(map(str, readable))}). Restore it with a version in between first."
    )


def overwrite_refusal(backup: Backup, present: PresentState, controller: str) -> str:
    """The message about newer jobs that the restoration would delete; empty if there are none."""
    found = []
    if present.next_job_id > 1:
        runs = "slurmctld runs there and has" if present.is_running else "it has the state of"
        found.append(f"{controller}: {runs} jobs up to {present.next_job_id - 1}.")
    if present.newest_job:
        found.append(f"The accounting database has jobs up to {present.newest_job}.")
    if not found:
        return ""
    last = f"the last one is job {backup.next_job_id - 1}" if backup.next_job_id > 1 else "it has no jobs"
    return " ".join((
        *found,
        f"The backup is of {backup.made}, and {last}: Slurm would forget all later jobs and assign their ids again. "
        f"First: {FAB} backup. Then, if this is intended, add --overwrite.",
    ))  # fmt: skip


def orphans(backup: Backup, present: PresentState) -> dict[int, tuple[str, ...]]:
    """The nodes, sorted, of each job that runs and is not in the backup, by job id."""
    found: dict[int, list[str]] = {}
    for node, steps in present.steps.items():
        for number in {int(step.partition(".")[0]) for step in steps}:
            if not is_known(backup, number):
                found.setdefault(number, []).append(node)
    return {number: tuple(sorted(nodes)) for number, nodes in sorted(found.items())}


def is_known(backup: Backup, number: int) -> bool:
    """Whether the backup's state has a job, so that slurmctld knows it after the restoration."""
    return number < backup.next_job_id if backup.jobs is None else number in backup.jobs


def format_orphans(found: Mapping[int, Sequence[str]]) -> str:
    """Jobs with their nodes, such as `job 17 on n[1-2]`; after 20 of them the number of the others."""
    some = [f"job {number} on {fold(nodes)}" for number, nodes in list(found.items())[:MOST_JOBS_NAMED]]
    more = f" and {len(found) - MOST_JOBS_NAMED} more" if len(found) > MOST_JOBS_NAMED else ""
    return f"{', '.join(some)}{more}"


def refusal(backup: Backup, present: PresentState, controller: str, *, overwrite: bool, abandon: bool) -> str:
    """The reasons why a backup is not restored, in whole sentences; empty if it may be restored.

    Args:
        overwrite: whether the user allows that Slurm forgets jobs later than the backup.
        abandon: whether the user allows that slurmctld ends running jobs which are not in the backup.
    """
    reasons = []
    newer = "" if overwrite else overwrite_refusal(backup, present, controller)
    if newer:
        reasons.append(newer)
    lost = {} if abandon else orphans(backup, present)
    if lost:
        reasons.append(
            f"Not in the backup: {format_orphans(lost)}. slurmctld would end {'it' if len(lost) == 1 else 'them'} "
            "when it starts. Wait until no such job runs, or add --abandon-jobs."
        )
    return "\n".join([*reasons, "Nothing was changed."]) if reasons else ""
