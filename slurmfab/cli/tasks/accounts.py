"""Tasks about what slurmdbd knows: accounts-export."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


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
