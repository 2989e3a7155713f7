"""Tasks that look back: history."""

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
