"""The task that undoes runs."""

from __future__ import annotations

from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import APPROVALS, Common


@command(
    positional=["[run]"],
    iterable=["allow"],
    help={
        "run": f"the run's id or its beginning (default: the last run that changed something); see {FAB} history",
        "dry_run": "show what would be done; change nothing",
        "drain_first": APPROVALS["drain_first"],
        "allow": APPROVALS["allow"],
    },
)
def rollback(
    common: Common, *, allow: list[str], run: str = "", dry_run: bool = False, drain_first: bool = False
) -> int:
    """Bring hosts and cluster file back to before a run.

    That run is undone, and with it all later runs: each host restores the files that it kept from then, manual edits
    and keys included, and the daemons read them as in a deployment. Then the cluster file and the lock are restored.
    Packages, users and jobs are not touched. Exit codes: 0 done, 1 failed, 2 wrong input, 3 done, but some hosts could
    not be reached, 4 a dry run found something to do.

    Examples:
        fab rollback --dry-run
        fab rollback
        fab rollback 20261121T1045
    """
    from slurmfab.commands.history.rollback import undoing
    from slurmfab.core.impact.approvals import Approvals

    approvals = Approvals(drain_first, frozenset(allow))
    return undoing.rollback(common.cluster, run, common.output, approvals, dry_run=dry_run)
