"""The task that undoes runs."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, word_after
from slurmfab.tasks.deploy import COMMON, CONSENT


@command(
    positional=word_after("rollback", "run"),
    iterable=["allow"],
    help={
        **COMMON,
        "run": "the run's id, or the beginning of it (default: the last run that changed something); see fab history",
        "dry_run": "show what would be done, and do nothing",
        "drain_first": CONSENT["drain_first"],
        "allow": CONSENT["allow"],
    },
)
def rollback(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    allow: list[str],
    run: str = "",
    dry_run: bool = False,
    drain_first: bool = False,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Bring hosts and cluster file back to before a run.

    That run is undone, and with it all later ones: each host puts back the files that it has kept, hand edits and keys
    included, and the daemons take them as in a deployment. Then the cluster file and the lock are as they were.
    Packages, users and jobs are not touched. Exit codes: 0 done, 1 failed, 2 wrong input, 3 done but for hosts that
    were not reached, 4 for a dry run that finds something to do.

    Examples:
        fab rollback --dry-run
        fab rollback
        fab rollback 20261121T1045
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.consent import Consent  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.rollback import undoing  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    return undoing.rollback(cluster, run, output, Consent(drain_first, frozenset(allow)), dry_run=dry_run)
