"""Names in a cluster file, read without the models that check them: for completion, and for a run's first line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurmfab.base import bounded_file, hostlist
from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.inventory import reading

HOSTS, NODES, PARTITIONS, USERS, ACCOUNTS = "hosts", "nodes", "partitions", "users", "accounts"
ACCEPTANCE_JOBS = "acceptance jobs"
MOST_BYTES = 4 << 20  # bytes of a cluster file that is read; more take too long for a TAB


def of(path: Path) -> dict[str, list[str]]:
    """The names of each kind above; none where the file is missing or wrong."""
    shape: Mapping[str, Any] = {}
    with suppress(OSError, UnicodeDecodeError, SlurmfabError):
        shape = reading.read(bounded_file.read(path, MOST_BYTES).decode(), str(path)).shape
    database, addresses, jobs = (shape.get(key) for key in ("database", "addresses", "acceptance"))
    nodes = expanded(of_each(shape, "nodes", "hosts"))
    roles = [shape.get("controllers"), database.get("host") if isinstance(database, dict) else database]
    hosts = [*expanded([*roles, shape.get("login")]), *nodes, *(addresses if isinstance(addresses, dict) else ())]
    return {
        HOSTS: list(dict.fromkeys(hosts)),
        NODES: nodes,
        PARTITIONS: list(map(str, of_each(shape, "partitions", "PartitionName"))),
        USERS: list(map(str, of_each(shape, "users", "name"))),
        ACCOUNTS: list(map(str, of_each(shape, "accounts", "name"))),
        ACCEPTANCE_JOBS: list(jobs) if isinstance(jobs, dict) else [],
    }


def of_each(shape: Mapping[str, Any], section: str, key: str) -> Iterator[Any]:
    """A key of each entry of a section that is a list."""
    entries = shape.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get(key):
            yield entry[key]


def expanded(hostlists: Iterable[Any]) -> list[str]:
    """The hosts of hostlists and of lists of them; what is none is left out."""
    found: dict[str, None] = {}
    for one in hostlists:
        for text in one if isinstance(one, list) else [one]:
            with suppress(SlurmfabError):
                found.update(dict.fromkeys(hostlist.expand(text) if isinstance(text, str) else ()))
    return list(found)
