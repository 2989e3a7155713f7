"""Tasks that look back: history, restore-lock."""

from __future__ import annotations

from slurmfab.tasks.command import command
from slurmfab.tasks.options import Common


@command(
    common=("cluster", "json"),
    positional=["[run]"],
    help={"run": "show this run in full: its id, a unique beginning of its id, or last"},
)
def history(common: Common, *, run: str = "") -> int:
    """List what was done to the cluster, when, and by whom.

    The list comes from the records beside the cluster file; no host is asked. Exit codes: 0 listed, 2 wrong input,
    or there is no such run.

    Examples:
        fab history
        fab history last
        fab history 20261121T1045 --json -
    """
    from slurmfab.history import listing

    return listing.show(common.cluster, run, common.json)


@command(common=("cluster",))
def restore_lock(common: Common) -> int:
    """Put back a lock that was lost, from the newest record.

    For a lock that was deleted, as by `git clean`; one that is there stays. No host is asked. Exit codes: 0 put back,
    2 there is a lock, or no record has one.

    Examples:
        fab restore-lock
    """
    from slurmfab.engine import missing_lock

    return missing_lock.put_back(common.cluster)
