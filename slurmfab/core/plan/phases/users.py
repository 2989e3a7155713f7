"""The users and groups slurm and munge, with the same UIDs and GIDs on every host."""

from __future__ import annotations

from slurmfab.base.paths import SLURM_HOME
from slurmfab.cluster.inventory.system_ids import SYSTEM_USERS, move
from slurmfab.cluster.slurm.platform import SystemAccount
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.null_device import NullDevice
from slurmfab.on_hosts.agent.files.shared_names import SharedNames
from slurmfab.on_hosts.agent.identities.moved_ids import MovedIds
from slurmfab.on_hosts.agent.identities.user import Group, User
from slurmfab.on_hosts.agent.services.units import RevivedUnit

SLURM_DAEMONS = ("slurmctld", "slurmdbd", "slurmrestd", "slurmd")
"""Slurm's daemons that run with slurm's UID or read it at their start; all of them need munged."""

SYSTEM = (NullDevice(), RevivedUnit("systemd-logind"))
LOGS = SharedNames("/var/log")  # above the logs of all daemons, and a group's on Ubuntu


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Both users, before a package can make them with other numbers; munge may not log in.

    What all programs need comes first, since useradd and packages need it, too: /dev/null, and systemd-logind, which
    gives up for good while a file system of its sandbox does not answer.

    With `move_ids`, users that exist with other numbers get the lock's numbers first. Without it, a run with such a
    host has stopped before it makes a plan.
    """
    moves = moved(plan_input, host)
    munge = plan_input.platform_of(host).munge
    guarded = (LOGS,) if plan_input.cluster.guard_directories else ()
    return (*moves, *SYSTEM, *guarded, *both(plan_input, munge, tuple(one.user for one in moves)))


@once
def both(plan_input: PlanInput, munge: SystemAccount, moves: tuple[str, ...]) -> tuple[Resource, ...]:
    """Both users and their groups. `moves`: the users whose numbers change on the host: any of `slurm` and `munge`."""
    ids = plan_input.lock.ids
    # Only SSH needs a shell and a home for slurm.
    kept = plan_input.cluster.slurm_ssh.logins == "none"
    return (
        Group("slurm", ids["slurm.gid"], moved="slurm" in moves),
        User("slurm", ids["slurm.uid"], "slurm", SLURM_HOME, "/bin/bash", moved="slurm" in moves, kept=kept),
        Group("munge", ids["munge.gid"], moved="munge" in moves),
        User("munge", ids["munge.uid"], "munge", munge.home, munge.shell, moved="munge" in moves),
    )


def moved(plan_input: PlanInput, host: str) -> tuple[MovedIds, ...]:
    """The changes of numbers of slurm and munge on a host; later phases start the daemons that these stop."""
    if not plan_input.move_ids or host not in plan_input.facts:
        return ()
    ids, facts = plan_input.lock.ids, plan_input.facts[host]
    state = (plan_input.cluster.state_directory,) if host in plan_input.cluster.controllers else ()
    daemons = {"slurm": SLURM_DAEMONS, "munge": (*SLURM_DAEMONS, "munge")}
    return tuple(
        MovedIds(user, ids[f"{user}.uid"], ids[f"{user}.gid"], daemons[user], state if user == "slurm" else ())
        for user in SYSTEM_USERS
        if move(user, ids, facts)
    )
