"""Tasks for the people who use the cluster."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, number
from slurmfab.tasks.deploy import COMMON


@command(
    positional=["name"],
    iterable=["key", "account"],
    help={
        **COMMON,
        "name": "login name",
        "key": "file with public SSH keys (- for standard input); may be given again",
        "account": "account to use, the default first; several with commas, or by giving it again",
        "uid": "UID on every host (default: the first that is free on all)",
        "groups": "further groups, with commas",
        "sudo": "may become root on controllers and login hosts, without a password",
        "comment": "the person's name in full",
    },
)
def add_user(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    name: str,
    key: list[str],
    account: list[str],
    uid: str = "",
    groups: str = "",
    sudo: bool = False,
    comment: str = "",
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Give somebody a login everywhere, and accounts.

    All hosts are asked first whether name and numbers are free. Of somebody who is there already, what is new is added.
    Nothing else of the cluster is touched. Exit codes: 0 done, 1 failed, as for a number that is somebody else's, 2
    wrong input, 3 done but for hosts that could not be reached; the next deploy sees to those.

    Examples:
        fab add-user ann --key ann.pub --account physics
        fab add-user bob --key - --uid 3000 --groups ml --comment "Bob Example" < keys
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.people import adding  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    accounts = tuple(one for names in account for one in names.split(",") if one)
    further = tuple(group.strip() for group in groups.split(",") if group.strip())
    wish = adding.Wish(tuple(key), accounts, further, number(uid, "--uid"), comment, sudo)
    return adding.add_user(cluster, name, wish, output)


@command(positional=["name"], help={**COMMON, "name": "login name"})
def remove_user(
    _c: Context,
    name: str,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Take somebody off the cluster; files stay.

    Job history stays as well. Refused while jobs or processes of theirs run anywhere. The UID is never given to anybody
    else. Exit codes: 0 done, 1 failed or refused, 2 wrong input, 3 done but for hosts that could not be reached; the
    next deploy sees to those.

    Examples:
        fab remove-user ann
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.people import removing  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    return removing.remove_user(cluster, name, output)
