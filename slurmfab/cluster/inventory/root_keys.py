"""Which keys of a cluster file can make somebody root on hosts: for people who judge a file of unknown origin.

A key that is not known to be harmless is shown, so that no new one is forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from slurmfab.cluster.inventory.accounting import User
from slurmfab.cluster.inventory.cluster import Cluster

HARMLESS = frozenset({
    "name", "addresses", "controllers", "login", "nodes", "partitions", "topology", "memory_margin", "hosts_file",
    "qos", "accounts", "unix_users", "licenses", "quota", "mps_daemon", "configless", "own_partition", "node_logins",
    "login_limits", "private_data", "motd", "x11", "user_tools", "restart_daemons", "keep_files",
    "rotate_logs",
})  # fmt: skip
"""Fields of a cluster whose values name no program, file, package, server or person that hosts obey as root."""

HARMLESS_OF_USER = frozenset({"name", "shell", "comment", "accounts", "associations", "quota"})
"""Fields of a user by which nobody becomes another user."""

FIRST_OF_PEOPLE = 1000
"""The lowest UID and GID of people; lower ones are those of the system's own users and groups."""

MOST_SHOWN = 160
"""Characters of a value; of longer ones the beginning and the number of the others are shown."""


def root_keys(cluster: Cluster) -> tuple[str, ...]:
    """The keys of a cluster file that can make somebody root, a line for each entry: `files./etc/motd: {…}`."""
    found = cluster.model_dump(mode="json", exclude_unset=True, include=set(Cluster.model_fields) - HARMLESS)
    others = {key: value for key, value in found.items() if key != "users"}
    lines = [line for key, value in others.items() for line in entries(key, value)]
    return (*lines, *(line for user in cluster.users for line in of_user(user)))


def entries(key: str, value: Any) -> Iterator[str]:
    """Yield a line for each entry of a key: those of a mapping or a list, or the value itself."""
    if isinstance(value, Mapping) and value:
        yield from (f"{key}.{one_line(name)}: {one_line(inner)}" for name, inner in value.items())
    elif isinstance(value, list) and value:
        yield from (f"{key}: {one_line(inner)}" for inner in value)
    else:
        yield f"{key}: {one_line(value)}"


def of_user(user: User) -> Iterator[str]:
    """Yield a line for a user who has more than an account."""
    found = user.model_dump(mode="json", exclude_unset=True, exclude=set(HARMLESS_OF_USER))
    if str(found.get("home", "")).rpartition("/")[2] == user.name:
        del found["home"]
    for number in ("uid", "gid"):
        if (found.get(number) or FIRST_OF_PEOPLE) >= FIRST_OF_PEOPLE:
            found.pop(number, None)
    found = {key: value for key, value in found.items() if value}
    if found:
        yield f"users.{user.name}: {one_line(found)}"


def one_line(value: Any) -> str:
    """A value in one line, as JSON with every unusual character written out."""
    text = value if isinstance(value, str) and value.isascii() and value.isprintable() else json.dumps(value)
    left_out = len(text) - MOST_SHOWN
    return text if left_out <= 0 else f"{text[:MOST_SHOWN]}… ({left_out} more characters)"
