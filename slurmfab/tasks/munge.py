"""The task for the key with which all hosts of a cluster believe each other."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command
from slurmfab.tasks.deploy import COMMON


@command(help=COMMON)
def rotate_munge_key(
    _c: Context, cluster: str = "", verbose: bool = False, json: str = "", ask_sudo_password: bool = False
) -> int:
    """Give all hosts a new munge key.

    It is written beside the old one everywhere first, and then put in its place on all hosts at one moment, while
    slurmctld is away for about two seconds; jobs run on. Then credentials are tried in both directions on every host.
    Hosts that could not be reached hold the old key, and are named. Exit codes: 0 done, 1 failed, 2 wrong input, 3 done
    but for hosts that could not be reached.

    Examples:
        fab rotate-munge-key
        fab rotate-munge-key --json -
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.munge import key_rotation  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    return key_rotation.rotate_munge_key(cluster, output)
