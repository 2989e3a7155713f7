"""Slurm's window: which series work together, which reads whose state and database, and the way from one to another.

The rule of Slurm's upgrade guide: slurmdbd >= slurmctld >= slurmd and commands, and each is at most two series newer
than the others (up to 24.05), or three (from 24.11 on). The newer side decides: it knows the older one's protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from slurmfab.cluster.slurm.versions import DISTRIBUTION, SlurmVersion
from slurmfab.on_hosts.agent.slurm import state_versions

SERIES = tuple(SlurmVersion(*map(int, one.split("."))) for one in state_versions.SERIES)
"""All series that the rule knows, oldest first; with those that slurmfab itself no longer supports."""

Member = Literal["slurmdbd", "slurmctld", "slurmd", "commands"]
"""A part of Slurm that has a version of its own: a daemon, or the commands of users (`commands`)."""

ORDER: tuple[Member, ...] = ("slurmdbd", "slurmctld", "slurmd", "commands")
"""In which order they are upgraded: each is never older than those that follow it."""

ASKS: tuple[tuple[Member, Member], ...] = (
    ("slurmdbd", "slurmctld"),
    ("slurmdbd", "commands"),
    ("slurmctld", "slurmd"),
    ("slurmctld", "commands"),
)
"""Who has to reach whom: the first is asked by the second."""


def reaches(newer: SlurmVersion, older: SlurmVersion) -> bool:
    """Whether a Slurm talks with daemons and commands of an older or equal series, and reads what it wrote.

    A series that slurmfab does not know yet is taken to reach every older one; the installed Slurm itself refuses.

    >>> reaches(SlurmVersion(26, 5), SlurmVersion(24, 11)), reaches(SlurmVersion(24, 11), SlurmVersion(22, 5))
    (True, False)

    Args:
        newer: the series of the side that has to know the other: slurmdbd's, or slurmctld's.
        older: the other side's.
    """
    if newer not in SERIES or older not in SERIES:
        return newer >= older
    return state_versions.reads(str(newer), str(older))


def reached(newer: SlurmVersion) -> tuple[SlurmVersion, ...]:
    """The series before this one that it works with, oldest first; empty for a series that slurmfab does not know."""
    return tuple(one for one in SERIES if one < newer and reaches(newer, one)) if newer in SERIES else ()


def way(older: SlurmVersion, newer: SlurmVersion) -> tuple[SlurmVersion, ...]:
    """The series to install one after the other, without the first and with the last; as few as possible.

    Of several such ways it is one whose series distributions have, since their packages can be had.

    >>> [str(one) for one in way(SlurmVersion(22, 5), SlurmVersion(26, 5))]
    ['23.11', '24.11', '26.05']

    Returns:
        The series; empty if both are the same, and if slurmfab does not know one of them.
    """
    steps = tuple(one for one in SERIES if older < one <= newer and reaches(one, older))
    if newer in steps:
        return (newer,)
    ways = [(one, *rest) for one in steps if (rest := way(one, newer))]
    fewest = min(map(len, ways), default=0)
    shortest = (found for found in ways if len(found) == fewest)
    return max(shortest, key=lambda found: (sum(str(one) in DISTRIBUTION.values() for one in found), found), default=())


def mismatches(versions: Mapping[Member, Iterable[SlurmVersion]]) -> tuple[tuple[Member, SlurmVersion, str], ...]:
    """Members whose versions do not work together.

    `versions`: the series of the members that there are; several where hosts differ. Returns for each: who does not
    work, its series, and the reason as a sentence's end, such as `is newer than slurmctld 25.05`; empty in a legal
    mixed state.
    """
    there = {member: sorted(set(series)) for member, series in versions.items()}
    found: list[tuple[Member, SlurmVersion, str]] = []
    for asked, asking in ASKS:
        for server in there.get(asked, ()):
            for client in there.get(asking, ()):
                if client > server:
                    found.append((asking, client, f"is newer than {asked} {server}"))
                elif not reaches(server, client):
                    oldest = next(iter(reached(server)), server)
                    found.append((asking, client, f"is too old for {asked} {server}, which talks to {oldest} or newer"))
    return tuple(dict.fromkeys(found))
