"""What a run prints about users that get another UID or GID, before and after the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmfab.base.errors import IdConflict
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, WOULD_CHANGE, Outcome
from slurmfab.on_hosts.agent.identities.moved_ids import MovedIds


def print_planned(run: Run, steps: Iterable[Step]) -> None:
    """Print which users will get other numbers on which hosts, and how many files they own.

    Raises IdConflict if the change would not be safe on some host, so no host is changed.
    """
    found = list(moves(steps))
    refused = [f"{host}: {outcome.message}" for host, outcome in found if outcome.status == FAILED]
    if refused:
        raise IdConflict("\n".join([*dict.fromkeys(refused), "Nothing was changed."]))
    for host, outcome in found:
        if outcome.status == WOULD_CHANGE:
            run.progress.line(format_move(host, outcome))


def print_done(run: Run) -> None:
    """Print how many files have a new owner on which hosts."""
    for host, outcome in moves(run.steps):
        if outcome.status == CHANGED:
            run.progress.line(format_move(host, outcome))


def moves(steps: Iterable[Step]) -> Iterator[tuple[str, Outcome]]:
    """The outcomes of changes of numbers, each with its host."""
    for step in steps:
        for outcome in step.outcomes:
            if outcome.id.startswith(f"{MovedIds.kind}:"):
                yield step.host, outcome


def format_move(host: str, outcome: Outcome) -> str:
    """A change of numbers as text: `n1: slurm: uid 1001 -> 64030, gid 1001 -> 64030: 1234 files below /home …`."""
    user = outcome.id.partition(":")[2]
    numbers = ", ".join(f"{change.name} {change.actual} -> {change.wanted}" for change in outcome.changes)
    return f"{host}: {user}: {numbers}: {outcome.message}"
