"""Tasks for those who ask for help: doctor, support-bundle."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "json"),
    hosts="log in to these hosts only (default: all of the cluster file)",
    local="look at this machine only: log in to no host",
    lab="look at whether this machine can run a lab, and at nothing else",
)
def doctor(common: Common, *, hosts: str = "", local: bool = False, lab: bool = False) -> int:
    """Look at your own side: Python, SSH, files, ways to hosts.

    One line for each thing: ok, warning or failed, with cause and repair. This machine: Python and packages, SSH keys,
    agent, known_hosts and ssh_config, cluster file and lock, git, clock, disk, language. The hosts: whether the login
    works, whether clocks agree, whether they reach their package mirrors. It works without a cluster file, too. Nothing
    is changed. Exit codes: 0 nothing failed, 1 something failed on this machine, 2 wrong input, 3 only hosts failed.

    Examples:
        fab doctor
        fab doctor --hosts n3
        fab doctor --local --json -
        fab doctor --lab
    """
    from slurmfab.commands.doctor import examining

    if lab:
        return examining.examine_for_lab(common.cluster, common.output)
    return examining.examine(common.cluster, hosts, common.output, is_local=local)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    hosts="hostlist of the hosts whose files and logs are wanted (default: all)",
    to="directory for the archive, or the archive's own path (default: beside the cluster file)",
)
def support_bundle(common: Common, *, hosts: str = "", to: str = "") -> int:
    """Make one archive for asking for help, without secrets.

    It has the cluster file and lock, records of runs, and from each host Slurm's files, the state of units, disks and
    clocks, and the ends of logs; from the controller the state of Slurm. Nothing is changed. Keys and password files
    are not collected; passwords and keys that are in other files are replaced. Names and addresses stay. Exit codes:
    0 made, 1 failed, 2 wrong input, 3 made, but without hosts that did not answer.

    Examples:
        fab support-bundle
        fab support-bundle --hosts 'ctl,n[1-2]' --to /tmp/
    """
    from slurmfab.commands.support_bundle import making

    return making.make(common.cluster, hosts, to, common.output)
