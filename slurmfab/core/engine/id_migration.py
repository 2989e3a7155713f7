"""What a run prints about users that get another UID or GID, before and after the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmfab.base.errors import IdConflict
from slurmfab.base.objections import Objection, objected
from slurmfab.core.engine.hearing import hear
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, WOULD_CHANGE, Outcome
from slurmfab.on_hosts.agent.identities.moved_ids import MovedIds


def print_planned(run: Run, steps: Iterable[Step]) -> None:
    """Print which users will get other numbers on which hosts, and how many files they own.

    A host where the change would not be safe is left out; raises IdConflict if that is the controller, or most hosts.
    """
    found = list(moves(steps))

    def judge() -> None:
        refused = ((host, one.message) for host, one in found if one.status == FAILED and host not in run.failed_hosts)
        objected((Objection((host,), message) for host, message in refused), ("Nothing was changed.",), IdConflict)

    hear(run, judge, run.hosts)
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
