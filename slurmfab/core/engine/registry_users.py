"""The users of the cluster's image registry: a file here with hashes of their passwords, sent over SSH to its host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError
from slurmfab.core.engine import passwords

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.registry import Registry

KEY = "registry.password_file"
LONGEST = 1 << 20
_ENTRY = re.compile(r"(?P<user>[A-Za-z0-9_][A-Za-z0-9._@+-]{0,127}):\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}")
_HIGHEST_COST = 15
"""A server computes a hash for each request with a login; from here on that takes seconds."""


def read(registry: Registry | None, beside: Path) -> str:
    """Read the users and the hashes of their passwords, as htpasswd(1) writes them.

    Args:
        registry: the cluster file's `registry`; `None` where there is none.

    Returns:
        The lines of the file without comments; empty without a registry.

    Raises:
        InputError: the file is missing, empty or readable by others, or a line is none that the registry takes.
    """
    if registry is None:
        return ""
    path = beside / Path(registry.password_file).expanduser()
    what = "a line USER:HASH for each user who may send images; to add one: htpasswd -B"
    text = passwords.read(path, KEY, f"{what} {path} USER", most=LONGEST, is_one=False)
    users: dict[str, int] = {}
    entries = dict(entries_of(text, path))
    for number, line in entries.items():
        user = line.partition(":")[0]
        if users.setdefault(user, number) != number:
            raise InputError(f"{KEY}: {path}:{number}: {user} is already in line {users[user]}. Nothing was changed.")
    if not users:
        raise InputError(f"{KEY}: {path} has no user. It must hold {what} {path} USER. Nothing was changed.")
    return "".join(f"{line}\n" for line in entries.values())


def entries_of(text: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield the entries of a file of htpasswd(1), each with the number of its line.

    Raises:
        InputError: a line is none that the registry takes.
    """
    for number, line in enumerate((line.strip() for line in text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        found = _ENTRY.fullmatch(line)
        if not found:
            raise InputError(
                f"{KEY}: {path}:{number}: it is not USER:HASH with a hash of bcrypt, which is the only one that the "
                f"registry takes. To write it: htpasswd -B {path} USER. Nothing was changed."
            )
        if int(found["cost"]) > _HIGHEST_COST:
            raise InputError(
                f"{KEY}: {path}:{number}: each request of {found['user']} would take the registry seconds, because the "
                f"cost of the hash is {found['cost']}. To write it anew: htpasswd -B -C 10 {path} {found['user']}. "
                "Nothing was changed."
            )
        yield number, line
