"""What keeps a backup from being restored: pure functions of it and of what the hosts have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurmfab.backup.archive import Backup
from slurmfab.hostlist import fold
from slurmfab.slurm.versions import SlurmVersion

SERIES = ("22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
"""The release series of Slurm, in their order."""

THREE_BACK = SlurmVersion(24, 11)
"""From here on Slurm reads what three series before it have written; up to 24.05 it is two (Slurm's upgrade guide)."""

MOST_NAMED = 20


@dataclass(frozen=True)
class Present:
    """What the hosts have that a restoration would replace; nothing of what it has put in its place already.

    Args:
        next_job_id: the number that the next job would get there; 0 where there is no state, or no job ever was.
        is_running: whether slurmctld runs.
        newest_job: the highest number of a job in the accounting database, 0 for none.
        steps: the job steps that run on compute nodes, as `JOB.STEP`, by node.
        silent: compute nodes that did not say which they have.
    """

    next_job_id: int = 0
    is_running: bool = False
    newest_job: int = 0
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()


def version_refusal(written: str, installed: SlurmVersion) -> str:
    """Why the installed Slurm could not read what another one has written, empty when it can.

    Args:
        written: the version of the backup.
        installed: that of the hosts.
    """
    wrote = SlurmVersion.parse(written)
    if wrote == installed:
        return ""
    if wrote > installed:
        return (
            f"the backup is of Slurm {wrote}, and the hosts have {installed}: Slurm never reads what a newer one has "
            f"written. Install Slurm {wrote} or newer."
        )
    window = 3 if installed >= THREE_BACK else 2
    names = [name for name in SERIES if str(wrote) <= name <= str(installed)]
    if len(names) - 1 <= window:
        return ""
    return (
        f"the backup is of Slurm {wrote}, and the hosts have {installed}: that one reads what the {window} series "
        f"before it have written ({', '.join(names[-window - 1 : -1])}). Restore it with a Slurm in between first."
    )


def overwriting(backup: Backup, present: Present, controller: str) -> str:
    """In words, which jobs would be forgotten by the restoration; empty where nothing would be lost."""
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
        f"The backup is of {backup.made}, and {last}: what came after it would be forgotten, and numbers would be "
        "given out again. First: fab backup. Then, if that is meant: --overwrite.",
    ))  # fmt: skip


def orphans(backup: Backup, present: Present) -> dict[int, tuple[str, ...]]:
    """The jobs that run on compute nodes and that the backup does not know, with their nodes."""
    found: dict[int, list[str]] = {}
    for node, steps in present.steps.items():
        for number in {int(step.partition(".")[0]) for step in steps}:
            if not is_known(backup, number):
                found.setdefault(number, []).append(node)
    return {number: tuple(sorted(nodes)) for number, nodes in sorted(found.items())}


def is_known(backup: Backup, number: int) -> bool:
    """Whether slurmctld would know a job by the backup's state."""
    return number < backup.next_job_id if backup.jobs is None else number in backup.jobs


def orphan_words(found: Mapping[int, Sequence[str]]) -> str:
    """In words, which jobs those are."""
    some = [f"job {number} on {fold(nodes)}" for number, nodes in list(found.items())[:MOST_NAMED]]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{', '.join(some)}{more}"


def refusal(backup: Backup, present: Present, controller: str, *, overwrite: bool, abandon: bool) -> str:
    """Why it is not restored, in whole sentences; empty where it may be.

    Args:
        backup: what is to be restored.
        present: what the hosts have.
        controller: the primary controller.
        overwrite: whether later jobs may be forgotten.
        abandon: whether running jobs may be ended that the backup does not know.
    """
    words = []
    forgotten = "" if overwrite else overwriting(backup, present, controller)
    if forgotten:
        words.append(forgotten)
    lost = {} if abandon else orphans(backup, present)
    if lost:
        words.append(
            f"The backup does not know {orphan_words(lost)}: slurmctld would end {'it' if len(lost) == 1 else 'them'} "
            "when it comes back. Wait for the end, or say --abandon-jobs."
        )
    return "\n".join([*words, "Nothing was changed."]) if words else ""
