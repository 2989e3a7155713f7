"""Tasks for people and accounts: add-user, remove-user, accounts-export, usage, close-runaways."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common, names, number


@command(common=("cluster", "ask_sudo_password"))
def accounts_export(common: Common) -> int:
    """Print accounts, users and QOS for the cluster file.

    The output has the sections qos, accounts and users, with the values that differ from Slurm's defaults. A deployment
    of these sections as they are changes nothing. The task itself changes nothing. Exit codes: 0 printed, 1 slurmdbd
    does not answer, 2 wrong input.

    Examples:
        fab accounts-export
        fab accounts-export >> configs/cluster.yaml
    """
    from slurmfab.commands.accounts import export

    return export.export(common.cluster, common.output)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    since="begin: a time such as 2026-11-01 or 2026-11-01T08:00, or an age such as 12h, 7d or 4w (default: 30d)",
    until="end, likewise (default: now)",
    by="what the rows are: some of user,account,partition,gpu, with commas (default: user)",
    csv="write the table as CSV to this file (- for standard output)",
    idle_minutes="list jobs that held GPUs idle from this age on (default: 10)",
    homes="measure also what homes and scratch directories hold: up to two minutes of gentle work on each host",
)
def usage(
    common: Common,
    *,
    since: str = "30d",
    until: str = "",
    by: str = "user",
    csv: str = "",
    idle_minutes: str = "10",
    homes: bool = False,
) -> int:
    """Show what jobs used over time, and how well.

    CPU and GPU hours and their share of the cluster, CPU time and memory used of what was asked for, jobs that hold
    GPUs idle, and the largest waits, from the records in slurmdbd. Times are those of the controller. The task changes
    nothing. Exit codes: 0 shown, 1 slurmdbd does not answer or Slurm keeps no records, 2 wrong input.

    Examples:
        fab usage
        fab usage --since 2026-11-01 --by account,gpu
        fab usage --since 7d --json - | jq .total
        fab usage --homes
    """
    from slurmfab.commands.usage import showing

    options = showing.UsageOptions(since, until, names([by]), csv, number(idle_minutes, "--idle-minutes") or 0, homes)
    return showing.show(common.cluster, options, common.output)


@command(
    name="login name",
    key="file with public SSH keys (- for standard input); repeatable",
    account="Slurm account, the default one first; several with commas, or by repeating the option",
    uid="UID on every host (default: the first that is free on all)",
    groups="additional groups, with commas",
    sudo="may become root on controllers and login hosts, without a password",
    comment="the person's full name",
)
def add_user(
    common: Common,
    name: str,
    *,
    key: list[str],
    account: list[str],
    uid: str = "",
    groups: str = "",
    sudo: bool = False,
    comment: str = "",
) -> int:
    """Give somebody a login on all hosts, and accounts.

    First all hosts are asked whether the name and the UID are free. A user who exists already gets what is new.
    What users have no part in is not touched. Exit codes: 0 done, 1 failed, for example because the UID belongs to
    another user, 2 wrong input, 3 done, but some hosts could not be reached; the next deploy adds the user there.

    Examples:
        fab add-user ann --key ann.pub --account physics
        fab add-user bob --key - --uid 3000 --groups ml --comment "Bob Example" < keys
    """
    from slurmfab.commands.people import users

    options = users.AddUserOptions(tuple(key), names(account), names([groups]), number(uid, "--uid"), comment, sudo)
    return users.add_user(common.cluster, name, options, common.output)


@command(name="login name")
def remove_user(common: Common, name: str) -> int:
    """Remove somebody from the cluster; files stay.

    Job history stays as well. The task refuses while the user has jobs or processes on any host. The UID is never given
    to another user. Exit codes: 0 done, 1 failed or refused, 2 wrong input, 3 done, but some hosts could not be
    reached; the next deploy removes the user there.

    Examples:
        fab remove-user ann
    """
    from slurmfab.commands.people import users

    return users.remove_user(common.cluster, name, common.output)


@command(common=("cluster", "ask_sudo_password"), dry_run="only tell them; change nothing")
def close_runaways(common: Common, *, dry_run: bool = False, yes: bool = False) -> int:
    """End the records of jobs that a crash has lost.

    slurmctld does not know these jobs, because it had not saved them when it crashed or lost its power; slurmdbd has
    them as pending or running, and counts that as use. The task tells them by user, so that you can ask for them to be
    submitted again, and ends their records (sacctmgr show runawayjobs). Exit codes: 0 none is open any more, or all are
    told with --dry-run, 1 some are, or a daemon does not answer, 2 wrong input.

    Examples:
        fab close-runaways --dry-run
        fab close-runaways
    """
    from slurmfab.commands.accounts import runaway_jobs

    return runaway_jobs.close(common.cluster, dry_run=dry_run, asks=not yes, output=common.output)
