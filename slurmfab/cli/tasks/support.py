"""The task that helps to ask for help: support-bundle."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "json", "ask_sudo_password"),
    help={
        "hosts": "hostlist of the hosts whose files and logs are wanted (default: all)",
        "to": "directory for the archive, or the archive's own path (default: beside the cluster file)",
        "anonymous": "give people, hosts, addresses and the cluster other names",
    },
)
def support_bundle(common: Common, *, hosts: str = "", to: str = "", anonymous: bool = False) -> int:
    """Make one archive for asking for help, without secrets.

    It has the cluster file and lock, records of runs, and from each host Slurm's files, the state of units, disks and
    clocks, and the ends of logs; from the controller the state of Slurm. Nothing is changed. Keys and password files
    are not collected; passwords and keys that are in other files are replaced. Exit codes: 0 made, 1 failed, 2 wrong
    input, 3 made, but without hosts that did not answer.

    Examples:
        fab support-bundle
        fab support-bundle --hosts 'ctl,n[1-2]' --to /tmp/
        fab support-bundle --anonymous
    """
    from slurmfab.commands.support_bundle import making

    return making.make(common.cluster, hosts, to, common.output, is_anonymous=anonymous)
