"""Load a cluster file and its lock as one value."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.base import bounded_file, foreign
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import file_named, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.reading import read
from slurmfab.cluster.inventory.shared_files import FilesRead

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster

_NAMED = re.compile(r"(?P<section>[a-z_]+)\.(?P<key>\w+): ")
"""How a mistake begins that is about a key, such as `slurm_conf.SlurmdTimeot: …`."""


def with_lines(inventory: Inventory, mistakes: Iterable[str]) -> tuple[str, ...]:
    """The same mistakes, each with the file and the line of its key.

    Args:
        inventory: the cluster file as it was read; without its text, the mistakes stay as they are.
        mistakes: texts that begin with section and key; others stay as they are.
    """
    if inventory.files is None or inventory.files.cluster is None:
        return tuple(mistakes)
    document = read(inventory.files.cluster.decode(), str(inventory.path))

    def placed(mistake: str) -> str:
        """One mistake with its line."""
        named = _NAMED.match(mistake)
        if not named:
            return mistake
        section, key = named["section"], named["key"].lower()
        places = ((place, line) for place, line in document.lines.items() if place[:1] == (section,))
        lines = [line for place, line in places if str(place[-1]).lower() == key]
        return f"{inventory.path}:{min(lines)}: {mistake}" if lines else mistake

    return tuple(map(placed, mistakes))


def line_naming(inventory: Inventory, host: str) -> int:
    """The first line of the cluster file with a host's name; 0 where it is in no line by itself, as in `n[1-4]`."""
    text = inventory.files.cluster.decode() if inventory.files and inventory.files.cluster else ""
    named = re.compile(rf"^[^#]*(?<![\w.-]){re.escape(host)}(?![\w.-])")
    return next((number for number, line in enumerate(text.splitlines(), 1) if named.search(line)), 0)


MOST_BYTES = 16 * 1024 * 1024
"""Size of the largest cluster file; one that lists 65,536 nodes and their addresses one by one has a third of that."""

MOST_SHOWN = 5  # how many other cluster files a message names

HIDDEN_END = re.compile(rb"\r(?!\n)")  # behind a comment, what comes next is none for YAML (1.1, 5.4)

lock_path = shared_files.lock_path
named_path = file_named.file_named
default_path = file_named.default_path
PATH_VARIABLE = file_named.PATH_VARIABLE


@dataclass(frozen=True)
class Inventory:
    """A cluster file with its lock."""

    cluster: Cluster
    lock: locks.Lock
    path: Path
    # both files as they were read; `None` where they were not read from there
    files: FilesRead | None = field(default=None, repr=False, compare=False)


def load(path: Path) -> Inventory:
    """Load a cluster file and its lock; ClusterFileError with all mistakes, InputError if one is unreadable."""
    text, read_at = read_text(path), time.time()
    locked = shared_files.content(lock_path(path))
    if locked is not None and (why := foreign.why_planted(lock_path(path), path)):
        raise InputError(f"{why}, so it is not believed. See who made it, and move it away.")
    lock = locks.Lock() if locked is None else locks.parse(locked, lock_path(path))
    return Inventory(parse(text, str(path)), lock, path, FilesRead(text.encode(), locked, read_at))


def load_named(cluster: str) -> Inventory:
    """The cluster in the file that the command line names, with its lock; raises as `load`."""
    return load(named_path(cluster))


def parse(text: str, where: str) -> Cluster:
    """Parse the YAML of a cluster file; ClusterFileError lists all its mistakes."""
    # pydantic costs 55 ms that `fab --list` need not pay.
    from slurmfab.cluster.inventory import complaints, reading

    return complaints.cluster_from(reading.read(text, where), where)


def _others(path: Path) -> str:
    """The cluster files beside one that is not there, as far as they have a lock; as the end of a sentence."""
    found = [str(one) for one in sorted(path.parent.glob("*.yaml")) if shared_files.lock_path(one).exists()]
    return f", but {', '.join(found[:MOST_SHOWN])}" if found else ""


def read_text(path: Path) -> str:
    """Read the text of a cluster file, with its line ends; InputError if it is missing, too large or no UTF-8."""
    try:
        return text_of(bounded_file.read(path, MOST_BYTES), str(path))
    except FileNotFoundError:
        raise InputError(
            f"There is no cluster file {path}{_others(path)}. `{FAB} deploy --hosts 'n1,n[2-5]'` makes one, with the "
            f"first host as the controller, and `{FAB} init` by a few questions; --cluster or {PATH_VARIABLE} names "
            "another."
        ) from None
    except OSError as error:
        raise InputError(f"The cluster file {path} cannot be read: {error.strerror}.") from error
    except BrokenFile as error:
        raise InputError(f"{path}: this is no cluster file: {error.reason}.") from error


def text_of(data: bytes, where: str) -> str:
    """The text in the bytes of a cluster file. Raises InputError if it is not UTF-8, or has hidden ends of lines."""
    hidden = HIDDEN_END.search(data)
    if hidden:
        line = data[: hidden.start()].count(b"\n") + 1
        raise InputError(
            f"{where}:{line}: a carriage return ends a line here for YAML, and editors may not show it; remove it."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{where}:{line}: this is not UTF-8 text; save the file as UTF-8.") from error
