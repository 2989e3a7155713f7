"""The task that brings hosts up to date."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command, number
from slurmfab.cli.tasks.options import APPROVALS, Common


@command(
    help={
        "hosts": "only these hosts (default: all)",
        "security": "only packages whose newer version comes from a security archive",
        "reboot": "reboot compute nodes that need it",
        "plan": "show what there is to do, and change nothing",
        "at_once": "how many hosts at a time, as a number or as a part of the compute nodes (default: 10%)",
        "timeout": "wait at most this many minutes for jobs to end (default: no limit)",
        "reboot_timeout": "minutes that a node may be away for its reboot (default: 20)",
        "yes": APPROVALS["yes"],
    }
)
def update(
    common: Common,
    *,
    hosts: str = "",
    security: bool = False,
    reboot: bool = False,
    plan: bool = False,
    at_once: str = "10%",
    timeout: str = "",
    reboot_timeout: str = "20",
    yes: bool = False,
) -> int:
    """Bring the hosts' packages up to date, except Slurm's.

    Compute nodes come first, a few at a time: each is drained, updated when its jobs have ended, proved by a job, and
    given back. Login hosts follow, then the controllers and the database. Daemons that use replaced libraries are
    restarted. Slurm's own packages stay as they are, and no package is removed. It stops at the first host that fails;
    the same command goes on. Exit codes: 0 done, or nothing to do, 1 failed, 2 wrong input, 3 some hosts were left out,
    4 with --plan: there is something to do.

    Examples:
        fab update --plan
        fab update --security --hosts 'n[1-64]' --at-once 4
        fab update --reboot --at-once 25% --yes
    """
    from slurmfab.commands.update import updating

    minutes, away = number(timeout, "--timeout") or 0, number(reboot_timeout, "--reboot-timeout") or 1
    options = updating.UpdateOptions(hosts, security, reboot, plan, at_once, minutes, away, yes)
    return updating.update(common.cluster, options, common.output)
