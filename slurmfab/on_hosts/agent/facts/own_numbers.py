"""The numbers that a host has itself, which entries of a directory do not get."""

from __future__ import annotations

from typing import Any, Iterable, List

from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.facts.facts import FIRST_OF_PEOPLE, LAST, ranges
from slurmfab.on_hosts.agent.identities.powerful_users import named_without_entry, unreadable

MOST_NUMBERS = 1 << 16


def own_numbers(root: str, powerful: Iterable[str]) -> List[List[Any]]:
    """The UIDs and GIDs from 1000 on that this host has itself, as `slurmfab.cluster.facts.OwnNumbers`.

    A range of subordinate IDs counts as numbers of both kinds: whose it is may become any of these (subuid(5)). With
    the number 0 come names, and with theirs numbers, to which rules give rights: `named_without_entry`. `powerful`: see
    there.
    """
    found: List[List[Any]] = [
        [kind, number, number, whose] for kind, number, whose in named_without_entry(root, powerful)
    ]
    for kind, path in (("uid", "/etc/passwd"), ("gid", "/etc/group")):
        rows = [fields for fields in entries(root + path) if len(fields) > 2 and fields[2].isdecimal()]  # noqa: PLR2004
        found += [[kind, int(one[2]), int(one[2]), one[0]] for one in rows if FIRST_OF_PEOPLE <= int(one[2]) < LAST]
    found += [one for one in ranges(root) if FIRST_OF_PEOPLE <= one[1] <= one[2]]
    told = found[:MOST_NUMBERS]
    return [[*one[:3], one[3] if one[3].isprintable() and 0 < len(one[3]) <= 128 else "somebody"] for one in told]  # noqa: PLR2004


def refusal(root: str) -> str:
    """Why the names to which this host gives rights are not known; empty if they are."""
    path = unreadable(Context(root))
    return path and (
        "the rules in %s cannot be read, so nobody knows whom they name, and an entry of the directory could have such "
        "a name. Correct them there (for those of sudo, visudo -c names the line)" % path
    )
