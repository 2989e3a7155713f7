"""The tasks that bring hosts, and Slurm, up to date."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common, number


@command(
    hosts="only these hosts (default: all)",
    security="only packages whose newer version comes from a security archive",
    reboot="reboot compute nodes that need it",
    plan="show what there is to do, and change nothing",
    at_once="how many hosts at a time, as a number or as a part of the compute nodes (default: 10%)",
    timeout="wait at most this many minutes for jobs to end (default: no limit)",
    reboot_timeout="minutes that a node may be away for its reboot (default: 20)",
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


@command(
    to="the Slurm to go to: a series such as 26.05, or a version (default: slurm.version of the cluster file)",
    suite="another suite of the hosts' own mirrors that has it, such as trixie-backports",
    hosts="only these hosts (default: all); slurmdbd's host and controllers come before others",
    back="the backup of an upgrade: go back to the packages, the state and the accounting of before it",
    abandon_jobs="with --back: let Slurm end running jobs that are not in the backup",
    identity="with --back: file with the private key that decrypts the backup",
    plan="show what would be done, and change nothing",
    at_once="how many compute nodes at a time, as a number or as a part of them (default: 10%)",
    drain="wait until the last job of a node has ended, before it is upgraded",
)
def upgrade(
    common: Common,
    *,
    to: str = "",
    suite: str = "",
    hosts: str = "",
    back: str = "",
    abandon_jobs: bool = False,
    identity: str = "",
    plan: bool = False,
    at_once: str = "10%",
    drain: bool = False,
    yes: bool = False,
) -> int:
    """Upgrade Slurm in its own order; jobs go on meanwhile.

    Shows the plan, then: a proved backup, slurmdbd with the conversion of its database, controllers with a copy of
    their state, compute nodes a few at a time with a job on each, login hosts, other services, Slurm's files, and
    check-cluster. It stops at the first host that fails; the same command goes on. Refuses what Slurm does not allow.
    Exit codes: 0 done, or nothing to do, 1 failed or refused, 2 wrong input, 3 some hosts were left out, 4 --plan.

    Examples:
        fab upgrade --to 26.05 --plan
        fab upgrade --suite trixie-backports --at-once 25%
        fab upgrade --hosts 'n[1-8]' --drain
        fab upgrade --back configs/cluster.backups/titanic-20261121T143200Z.tar
    """
    from slurmfab.base.errors import InputError
    from slurmfab.commands.upgrade import back as way_back
    from slurmfab.commands.upgrade import planning, running

    if back or abandon_jobs or identity:
        options = way_back.Options(not (to or suite or hosts or plan or drain), abandon_jobs, identity, yes)
        return way_back.back(common.cluster, back, common.output, options)
    if plan and (hosts or drain):
        raise InputError("--plan shows the whole upgrade: leave out --hosts and --drain.")
    if plan:
        return planning.plan(common.cluster, to, suite, common.output)
    asked = running.UpgradeOptions(to, suite, hosts, at_once, drain, yes)
    return running.upgrade(common.cluster, asked, common.output)
