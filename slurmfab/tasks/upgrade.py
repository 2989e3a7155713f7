"""The task that upgrades Slurm."""

from __future__ import annotations

from slurmfab.tasks.command import command
from slurmfab.tasks.options import Common


@command(
    common=("cluster", "json", "ask_sudo_password"),
    help={
        "to": "the Slurm to go to: a series such as 26.05, or a version (default: slurm.version of the cluster file)",
        "suite": "another suite of the hosts' own mirrors that has it, such as trixie-backports",
        "plan": "show what would be done, and change nothing",
    },
)
def upgrade(common: Common, *, to: str = "", suite: str = "", plan: bool = False) -> int:
    """Plan an upgrade of Slurm, in the order that it needs.

    Asks each host what it has, and apt on one host of each release what it would install; nothing is changed anywhere.
    Shows the steps in Slurm's own order with what each means for jobs, how long the database's conversion may take,
    and the way back. Refuses what Slurm does not allow, such as too large a step, with the way that it does. Exit
    codes: 0 nothing to do, 1 failed or refused, 2 wrong input, 3 some hosts did not answer, 4 there is something to do.

    Examples:
        fab upgrade --to 26.05 --plan
        fab upgrade --suite trixie-backports --plan --json -
    """
    from slurmfab.errors import InputError
    from slurmfab.upgrade import planning

    if not plan:
        raise InputError("This version plans upgrades, and does not carry them out: add --plan.")
    return planning.plan(common.cluster, to, suite, common.output)
