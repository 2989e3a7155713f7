"""Identity: the slurm and munge users and groups, with the same numbers on every host."""

from __future__ import annotations

from slurmfab.agent.group import Group
from slurmfab.agent.resource import Resource
from slurmfab.agent.user import User
from slurmfab.situation import SLURM_HOME, Situation

MUNGE_HOME = "/nonexistent"
"""As Debian's munge package makes it (postinst)."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:  # noqa: ARG001 - the same everywhere
    """Both users, before any package can make them with numbers of its own; slurm may log in, munge may not."""
    ids = situation.lock.ids
    return (
        Group("slurm", ids["slurm.gid"]),
        User("slurm", ids["slurm.uid"], "slurm", SLURM_HOME, "/bin/bash"),
        Group("munge", ids["munge.gid"]),
        User("munge", ids["munge.uid"], "munge", MUNGE_HOME, "/usr/sbin/nologin"),
    )
