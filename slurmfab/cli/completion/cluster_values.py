"""Names of the cluster file and of what lies beside it, read without the models that check them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from slurmfab import __version__
from slurmfab.cli.completion import takes
from slurmfab.cluster.inventory.file_named import file_named

PACKAGE = Path(__file__).parents[1]


def kept(name: str, of: list[str], make: Callable[[], Any]) -> Any:
    """JSON values from the cache file `name`, if this slurmfab made them of the same things; else made and kept."""
    path, mark = directory() / f"{name}.json", [__version__, str(PACKAGE), *of]
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        found = json.loads(path.read_bytes())
        if found["of"] == mark:
            return found["values"]
    values = make()
    with suppress(OSError):
        write(path, json.dumps({"of": mark, "values": values}))
    return values


def directory() -> Path:
    """The directory of what slurmfab keeps for this user, by the XDG Base Directory Specification."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    above = given if given.startswith("/") else os.path.expanduser("~/.cache")  # noqa: PTH111 - no home is no error
    return Path(above) / "slurmfab"


def write(path: Path, text: str) -> None:
    """Write a file that only this user can read, in one step; OSError where the home is another user's, and so on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.geteuid():  # as root with another user's HOME
        return
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(0o600, exist_ok=False)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


MOST_BYTES = 4 << 20  # bytes of a cluster file or record that is read; more take too long for a TAB

MOST_RECORDS = 30


class ClusterValues:
    """What a cluster file names, at the path as typed (empty: the default); a missing or wrong file names nothing."""

    def __init__(self, cluster: str) -> None:
        self._path = file_named(os.path.expanduser(cluster))  # noqa: PTH111 - an unknown user is no error here

    @property
    def is_there(self) -> bool:
        """Whether there is a file with hosts."""
        return bool(self.named(takes.HOSTS))

    def named(self, what: str) -> list[str]:
        """The names of a kind of `takes`; empty for a kind that no cluster file names."""
        return self._names.get(what, [])

    @property
    def runs(self) -> list[str]:
        """Recorded runs, the latest first."""
        return [path.stem for path in reversed(self._records())]

    @property
    def drained(self) -> list[str]:
        """Compute nodes that `drain` took out of service, and `resume` has not returned since, by the records."""
        drained: dict[str, None] = {}
        for path in self._records()[-MOST_RECORDS:]:
            record = json_of(path)
            hosts = record.get("hosts")
            if record.get("exit_code") != 0 or not isinstance(hosts, list):
                continue
            if record.get("command") == "drain":
                drained.update(dict.fromkeys(map(str, hosts)))
            elif record.get("command") == "resume":
                drained = {name: None for name in drained if name not in hosts}
        return [name for name in drained if name in self.named(takes.NODES)]

    def _records(self) -> list[Path]:
        """The files of the records, the oldest first."""
        return sorted(self._path.with_name(f"{self._path.stem}.runs").glob("*.json"))

    @cached_property
    def _names(self) -> Mapping[str, list[str]]:
        """The names of each kind."""
        try:
            status = self._path.stat()
        except OSError:
            return {}
        of = [os.path.abspath(self._path), str(status.st_mtime_ns), str(status.st_size)]  # noqa: PTH100 - links stay
        found = kept("cluster", of, lambda: names_in(shape_of(self._path)))
        return found if isinstance(found, dict) else {}


def names_in(shape: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names in a cluster file, by their kinds. `shape`: its values, as `inventory.reading` has them."""
    database, addresses, jobs = (shape.get(key) for key in ("database", "addresses", "acceptance"))
    nodes = expanded(of_each(shape, "nodes", "hosts"))
    roles = [shape.get("controllers"), database.get("host") if isinstance(database, dict) else database]
    hosts = [*expanded([*roles, shape.get("login")]), *nodes, *(addresses if isinstance(addresses, dict) else ())]
    return {
        takes.HOSTS: list(dict.fromkeys(hosts)),
        takes.NODES: nodes,
        takes.PARTITIONS: list(map(str, of_each(shape, "partitions", "PartitionName"))),
        takes.USERS: list(map(str, of_each(shape, "users", "name"))),
        takes.ACCOUNTS: list(map(str, of_each(shape, "accounts", "name"))),
        takes.ACCEPTANCE_JOBS: list(jobs) if isinstance(jobs, dict) else [],
    }


def of_each(shape: Mapping[str, Any], section: str, key: str) -> Iterator[Any]:
    """A key of each entry of a section that is a list."""
    entries = shape.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get(key):
            yield entry[key]


def expanded(hostlists: Iterable[Any]) -> list[str]:
    """The hosts of hostlists and of lists of them; what is none is left out."""
    from slurmfab.base import hostlist
    from slurmfab.base.errors import SlurmfabError

    found: dict[str, None] = {}
    for one in hostlists:
        for text in one if isinstance(one, list) else [one]:
            with suppress(SlurmfabError):
                found.update(dict.fromkeys(hostlist.expand(text) if isinstance(text, str) else ()))
    return list(found)


def shape_of(path: Path) -> Mapping[str, Any]:
    """The values of a cluster file; empty where it cannot be read."""
    from slurmfab.base import bounded_file
    from slurmfab.base.errors import SlurmfabError
    from slurmfab.cluster.inventory import reading

    with suppress(OSError, UnicodeDecodeError, SlurmfabError):
        return reading.read(bounded_file.read(path, MOST_BYTES).decode(), str(path)).shape
    return {}


def json_of(path: Path) -> Mapping[str, Any]:
    """The values of a record; empty where it cannot be read."""
    from slurmfab.base import bounded_file
    from slurmfab.base.errors import SlurmfabError

    with suppress(OSError, ValueError, RecursionError, SlurmfabError):
        values = json.loads(bounded_file.read(path, MOST_BYTES))
        return values if isinstance(values, dict) else {}
    return {}
