"""Tasks about what slurmdbd knows: accounts-export."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command
from slurmfab.tasks.deploy import COMMON


@command(help={"cluster": COMMON["cluster"], "ask_sudo_password": COMMON["ask_sudo_password"]})
def accounts_export(_c: Context, cluster: str = "", ask_sudo_password: bool = False) -> int:
    """Print accounts, users and QOS for the cluster file.

    The sections qos, accounts and users, with what differs from Slurm's defaults; deployed as they are, they change
    nothing. Nothing is changed. Exit codes: 0 told, 1 slurmdbd does not answer, 2 wrong input.

    Examples:
        fab accounts-export
        fab accounts-export >> configs/cluster.yaml
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.accounting import export as exporting  # noqa: PLC0415 - `fab --list` shall not pay for it

    return exporting.export(cluster, operations.Output(ask_password=ask_sudo_password))
