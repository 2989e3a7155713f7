"""Ranges of further UIDs and GIDs for each user, which containers without root need (subuid(5)).

They follow from a user's UID alone: so they are the same on every host, no two users share one, and nothing has to be
remembered. User 2001 has the 65536 numbers from 2001 * 65536 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmfab.cluster.inventory.cluster import Cluster

COUNT = 65536
"""How many numbers each user gets: images have all up to 65535, the number of `nogroup` in some."""

FIRST_UID = 1000
"""Lower UIDs are of system users; useradd gives numbers from 100000 on, which are those of UID 1 in this rule."""

SLURM = "slurm"
"""Quickcheck runs jobs as this user unless it is told another one."""

LAST_UID = 65533
"""The highest UID with a range: all numbers have 32 bits, and those from 65534 * 65536 on include the number -1."""


def first(uid: int) -> int:
    """The first number of a user's range.

    >>> first(2001)
    131137536
    """
    return uid * COUNT


def mistakes(cluster: Cluster, numbers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The users who cannot have a range, each with the reason.

    Args:
        numbers: the UIDs as in the lock, such as `ann.uid`.
    """
    uids = {user.name: numbers[f"{user.name}.uid"] for user in cluster.users if f"{user.name}.uid" in numbers}
    owners = {uid: name for name, uid in uids.items()}
    for name, uid in uids.items():
        if uid > LAST_UID:
            yield name, f"UID {uid} has no range of subordinate IDs, which are UID * {COUNT}; {LAST_UID} is the last"
        owner = owners.get(uid // COUNT)
        if owner is not None:
            yield name, f"UID {uid} is one of the subordinate IDs of {owner} (UID {uid // COUNT})"


def ranges(cluster: Cluster, numbers: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Name and first number of the range of each user with a UID, in the order of the file, and of slurm.

    Args:
        numbers: the UIDs as in the lock.
    """
    people = [user.name for user in cluster.users] if cluster.unix_users else []
    uids = ((name, numbers.get(f"{name}.uid", 0)) for name in (*people, SLURM))
    return tuple((name, first(uid)) for name, uid in uids if FIRST_UID <= uid <= LAST_UID)
