"""What a run tells of users that are moved to other numbers: before it does so, and afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmfab.agent.moved_ids import MovedIds
from slurmfab.agent.resource import CHANGED, FAILED, WOULD_CHANGE, Outcome
from slurmfab.errors import IdConflict
from slurmfab.report import Step
from slurmfab.run import Run


def announce(run: Run, steps: Iterable[Step]) -> None:
    """Say which users will be moved on which hosts, with the number of their files.

    Args:
        run: whom to tell.
        steps: the outcomes of a survey.

    Raises:
        IdConflict: on some host it would not be safe, so it is begun on none.
    """
    found = list(moves(steps))
    refused = [f"{host}: {outcome.message}" for host, outcome in found if outcome.status == FAILED]
    if refused:
        raise IdConflict("\n".join([*dict.fromkeys(refused), "Nothing was changed."]))
    for host, outcome in found:
        if outcome.status == WOULD_CHANGE:
            run.progress.line(described(host, outcome))


def tell(run: Run) -> None:
    """Say how many files were moved on which hosts."""
    for host, outcome in moves(run.steps):
        if outcome.status == CHANGED:
            run.progress.line(described(host, outcome))


def moves(steps: Iterable[Step]) -> Iterator[tuple[str, Outcome]]:
    """The outcomes that are about users with other numbers, each with its host."""
    for step in steps:
        for outcome in step.outcomes:
            if outcome.id.startswith(f"{MovedIds.kind}:"):
                yield step.host, outcome


def described(host: str, outcome: Outcome) -> str:
    """One move, as `n1: slurm: uid 1001 -> 64030, gid 1001 -> 64030: 1234 files below /home, /var …`."""
    user = outcome.id.partition(":")[2]
    numbers = ", ".join(f"{change.name} {change.actual} -> {change.wanted}" for change in outcome.changes)
    return f"{host}: {user}: {numbers}: {outcome.message}"
