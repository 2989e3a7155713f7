"""A cluster file or lock that somebody else has changed since a run read it: who, what, and what to do."""

from __future__ import annotations

from slurmfab.base.errors import FilesChanged
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory import shared_files
from slurmfab.cluster.inventory.shared_files import FilesRead
from slurmfab.core.engine import record
from slurmfab.core.engine.run import Run

MOST_RUNS = 3  # how many other runs a message names


def refuse(run: Run) -> None:
    """Stop if the cluster file or the lock has changed since the run read them.

    The run would otherwise undo the change on the hosts, as with a node that a colleague has added meanwhile. Raises
    FilesChanged if the message says what has changed, and which runs did it.
    """
    before = run.inventory.files
    if before is not None:
        refuse_difference(run, before, shared_files.read(run.inventory.path))


def refuse_difference(run: Run, before: FilesRead, now: FilesRead) -> None:
    """Stop by FilesChanged if files differ from what a run read."""
    lines = shared_files.changes(run.inventory.path, before, now)
    if lines:
        done = "Nothing more was changed." if run.steps else "This run changed nothing."
        raise FilesChanged("\n".join((
            "The cluster file or its lock has changed since this run read it:",
            *(f"  {line}" for line in (*lines, *other_runs(run, before.read_at))),
            f"{done} Run the same command again.",
        )))  # fmt: skip


def other_runs(run: Run, since: float) -> tuple[str, ...]:
    """The other runs on record that went on since a time, newest first: `by ann@laptop: add-node on n3 (RUN)`."""
    records, _ = record.load_all(run.inventory.path)
    others = (one for one in reversed(records) if one.run != run.id)
    # The end is on record in whole seconds.
    found = [one for one in others if one.ended is None or one.ended.timestamp() >= int(since)]
    return tuple(f"by {one.by}: {one.command} on {fold(one.hosts)} ({one.run})" for one in found[:MOST_RUNS])
