"""`fab close-runaways`: tells which jobs a crash has lost, and ends their records in slurmdbd."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.status.snapshot import OpenRecord, open_records
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.client.amounts import bounded
from slurmfab.on_hosts.agent.core.listing import listed


def close(cluster: str, *, dry_run: bool, asks: bool, output: session.Output) -> int:
    """Tell the lost jobs by user, and end their records; InputError without accounting, SlurmfabError if some stay."""
    known = loading.load_named(cluster)
    if known.cluster.database is None:
        raise InputError("This cluster has no accounting database (`database` in the cluster file), so no records.")
    run = session.start(known, "", output, RunOptions("close-runaways", asks=asks))
    with session.ending(run, tells=False):
        found, _ = ask(run, is_closing=False)
        for line in lines(found):
            run.progress.line(line)
        if not found:
            run.progress.line("No record is open of a job that slurmctld does not know.")
        elif not dry_run:
            run.confirm("slurmdbd then has these jobs as COMPLETED at the time of their start or submission.", "Close?")
            _, left = ask(run, is_closing=True)
            if left:
                raise SlurmfabError(
                    f"Still open: {listed(one.id for one in left)}. sacctmgr passes over records whose number a job of "
                    "slurmctld has again; run this task again when that has ended and slurmctld has forgotten it."
                )
            run.progress.line(f"{len(found)} record{'s' if len(found) != 1 else ''} closed.")
    return 0


def ask(run: Run, *, is_closing: bool) -> tuple[tuple[OpenRecord, ...], tuple[OpenRecord, ...]]:
    """The open records of lost jobs, and those that are open afterwards."""
    controller = run.controller
    lines = run.transport.call(controller, {"op": "runaway-jobs", "close": is_closing})
    answer = answer_value(controller, lines, "runaway_jobs")
    return open_records(answer["records"]), open_records(answer["left"])


def lines(found: Sequence[OpenRecord]) -> Iterable[str]:
    """A line for each user: what to tell them."""
    for user, mine in grouped((one.user, one) for one in found).items():
        first = datetime.fromtimestamp(bounded(min(one.submitted for one in mine)))
        ids = listed(one.id for one in mine)
        yield f"{user}: {ids}: lost by a crash after {first:%Y-%m-%d %H:%M}; to be submitted again."
