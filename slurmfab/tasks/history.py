"""Tasks that look back: history."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, word_after
from slurmfab.tasks.deploy import COMMON


@command(
    positional=word_after("history", "run"),
    help={
        "run": "tell of this run in full: its id, a beginning that no other has, or last",
        "cluster": COMMON["cluster"],
        "json": "write it as JSON to this file (- for standard output)",
    },
)
def history(_c: Context, run: str = "", cluster: str = "", json: str = "") -> int:
    """List what was done to the cluster, when, and by whom.

    Told from the records beside the cluster file; no host is asked. Exit codes: 0 told, 2 there is no such run.

    Examples:
        fab history
        fab history last
        fab history 20261121T1045 --json -
    """
    from slurmfab.runs import history as runs  # noqa: PLC0415 - `fab --list` shall not pay for it

    return runs.show(cluster, run, json)
