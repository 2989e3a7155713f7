"""Tasks that look back and go back: history, rollback, restore-lock."""

from __future__ import annotations

from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    run=f"the run's id or its beginning (default: the last run that changed something); see {FAB} history",
    dry_run="show what would be done; change nothing",
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
        fab rollback --run 20261121T1045
    """
    from slurmfab.commands.history.rollback import undoing
    from slurmfab.core.impact.approvals import Approvals

    approvals = Approvals(drain_first, frozenset(allow))
    return undoing.rollback(common.cluster, run, common.output, approvals, dry_run=dry_run)


@command(common=("cluster", "json"), run="show this run in full: its id, a unique beginning of its id, or last")
def history(common: Common, *, run: str = "") -> int:
    """List what was done to the cluster, when, and by whom.

    The list comes from the records beside the cluster file; no host is asked. Exit codes: 0 listed, 2 wrong input,
    or there is no such run.

    Examples:
        fab history
        fab history --run last
        fab history --run 20261121T1045 --json -
    """
    from slurmfab.commands.history import listing

    return listing.show(common.cluster, run, common.json)


@command(
    common=("cluster", "ask_sudo_password"),
    from_controller="take the copy that the controller has",
    fingerprint="the controller's SSH host key has this fingerprint, which you have compared on its console",
)
def restore_lock(common: Common, *, from_controller: bool = False, fingerprint: str = "") -> int:
    """Put back a lost lock, from a record or the controller.

    For a lock that was deleted, as by `git clean`; one that is there stays. No host is asked, unless no record has the
    lock: then a terminal is asked whether to fetch the controller's copy, and --from-controller fetches it without a
    question. Its SSH host key has to be in known_hosts, or to be compared with --fingerprint. Exit codes: 0 put back,
    1 the controller has no copy or cannot be asked, 2 there is a lock, or no record has one.

    Examples:
        fab restore-lock
        fab restore-lock --from-controller
        fab restore-lock --from-controller --fingerprint SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8
    """
    from slurmfab.core.engine import lost_lock

    return lost_lock.restore(common.cluster, common.output, from_controller=from_controller, fingerprint=fingerprint)
