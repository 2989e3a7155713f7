"""Accounts that are closed because their users leave: locked and expired, so that no login is possible any more."""

from __future__ import annotations

from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context

CLOSED_SINCE = "1"  # the day since 1970 on which a closed account expired (shadow(5)); 0 would be ambiguous
EXPIRES = 7  # index of a field in /etc/shadow (shadow(5))


def is_closed(context: Context, user: str) -> bool:
    """Whether an account expired as `RemovedPerson` makes it expire, which no kind of login survives."""
    for fields in entries(context.path("/etc/shadow")):
        if fields[0] == user and len(fields) > EXPIRES:
            return fields[EXPIRES] == CLOSED_SINCE
    return False
