"""Tasks for the people who use the cluster: add-user, remove-user."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command, names, number
from slurmfab.cli.tasks.options import Common


@command(
    positional=["name"],
    iterable=["key", "account"],
    help={
        "name": "login name",
        "key": "file with public SSH keys (- for standard input); repeatable",
        "account": "Slurm account, the default one first; several with commas, or by repeating the option",
        "uid": "UID on every host (default: the first that is free on all)",
        "groups": "additional groups, with commas",
        "sudo": "may become root on controllers and login hosts, without a password",
        "comment": "the person's full name",
    },
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

    First all hosts are asked whether the name and the UID are free. A user who exists already gets what is new. Nothing
    else in the cluster is touched. Exit codes: 0 done, 1 failed, for example because the UID belongs to another user,
    2 wrong input, 3 done, but some hosts could not be reached; the next deploy adds the user there.

    Examples:
        fab add-user ann --key ann.pub --account physics
        fab add-user bob --key - --uid 3000 --groups ml --comment "Bob Example" < keys
    """
    from slurmfab.commands.people import adding

    options = adding.AddUserOptions(tuple(key), names(account), names([groups]), number(uid, "--uid"), comment, sudo)
    return adding.add_user(common.cluster, name, options, common.output)


@command(positional=["name"], help={"name": "login name"})
def remove_user(common: Common, name: str) -> int:
    """Remove somebody from the cluster; files stay.

    Job history stays as well. The task refuses while the user has jobs or processes on any host. The UID is never given
    to another user. Exit codes: 0 done, 1 failed or refused, 2 wrong input, 3 done, but some hosts could not be
    reached; the next deploy removes the user there.

    Examples:
        fab remove-user ann
    """
    from slurmfab.commands.people import removing

    return removing.remove_user(common.cluster, name, common.output)
