"""Identity: the slurm and munge users and groups, with the same numbers on every host."""

from __future__ import annotations

from slurmfab.agent.group import Group
from slurmfab.agent.moved_ids import MovedIds
from slurmfab.agent.resource import Resource
from slurmfab.agent.user import User
from slurmfab.ids import SYSTEM_USERS, move
from slurmfab.phases.once import once
from slurmfab.situation import SLURM_HOME, Situation

MUNGE_HOME = "/nonexistent"
"""As Debian's munge package makes it (postinst)."""


SLURM_DAEMONS = ("slurmctld", "slurmdbd", "slurmrestd", "slurmd")
"""What of Slurm runs with slurm's UID or has learned it at its start; all of it talks by way of munged."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Both users, before any package can make them with numbers of its own; slurm may log in, munge may not.

    Where they are there with other numbers, and that may be, they are moved first; a run without that consent has
    ended before there is a plan.
    """
    moves = moved(situation, host)
    return (*moves, *both(situation, tuple(one.user for one in moves)))


@once
def both(situation: Situation, moves: tuple[str, ...]) -> tuple[Resource, ...]:
    """Both users, of whom these are moved."""
    ids = situation.lock.ids
    return (
        Group("slurm", ids["slurm.gid"], moved="slurm" in moves),
        User("slurm", ids["slurm.uid"], "slurm", SLURM_HOME, "/bin/bash", moved="slurm" in moves),
        Group("munge", ids["munge.gid"], moved="munge" in moves),
        User("munge", ids["munge.uid"], "munge", MUNGE_HOME, "/usr/sbin/nologin", moved="munge" in moves),
    )


def moved(situation: Situation, host: str) -> tuple[MovedIds, ...]:
    """The users that have other numbers on a host; nothing is started again here, later phases find it stopped."""
    if not situation.move_ids or host not in situation.facts:
        return ()
    ids, facts = situation.lock.ids, situation.facts[host]
    state = (situation.cluster.state_directory,) if host in situation.cluster.controllers else ()
    daemons = {"slurm": SLURM_DAEMONS, "munge": (*SLURM_DAEMONS, "munge")}
    return tuple(
        MovedIds(user, ids[f"{user}.uid"], ids[f"{user}.gid"], daemons[user], state if user == "slurm" else ())
        for user in SYSTEM_USERS
        if move(user, ids, facts)
    )
