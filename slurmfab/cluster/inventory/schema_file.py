"""The JSON schema beside a cluster file, which editors find by the cluster file's first line."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from slurmfab.base import atomic_file, bounded_file
from slurmfab.base.errors import BrokenFile, InputError, SlurmfabError
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.schema_version import made_from
from slurmfab.cluster.slurm.versions import SlurmVersion

MODELINE = "# yaml-language-server: $schema="
"""The beginning of the line by which YAML language servers, and the editors with them, find a file's schema."""

OURS = '"$comment": "Made by slurmfab '  # what the first lines of a schema have that slurmfab has made, and may replace
ALL = "all"  # instead of a version of Slurm: all that slurmfab supports

_MOST_BYTES = 4 << 20
_FIRST_LINES = 400
_OPENED = ("properties", "definitions")


def schema_path(path: Path) -> Path:
    """The path of a cluster file's schema: `cluster.schema.json` beside `cluster.yaml`."""
    return path.with_name(f"{path.stem}.schema.json")


def modeline(path: Path) -> str:
    """The first line of a cluster file, with its line end."""
    return f"{MODELINE}{schema_path(path).name}\n"


@cache
def text(version: SlurmVersion | None) -> str:
    """The schema as a file, with a line for each key, those of one Slurm; `None` for all supported versions."""
    from slurmfab.cluster.inventory import json_schema  # takes a tenth of a second, and most runs need no schema

    return _written(json_schema.schema(version), "") + "\n"


def write_or_show(cluster: str, slurm: str, output: str) -> int:
    """Write the schema to a file, or standard output (empty); returns 0.

    `slurm`: the version whose keys it has, or `all`; empty for the one in the lock. Raises InputError for other
    versions, and files.
    """
    made = text(wanted_version(loading.named_path(cluster), slurm))
    if output:
        atomic_file.write(Path(output), made, new=atomic_file.READABLE_BY_ALL, through_link=True)
        write(f"Wrote {output}. First line of a cluster file: {MODELINE}{output}", sys.stdout)
    else:
        sys.stdout.write(made)
    return 0


def wanted_version(path: Path, slurm: str) -> SlurmVersion | None:
    """The Slurm whose keys a schema has; `None` for those of all supported versions.

    `path`: the cluster file's, which need not exist. `slurm`: a version such as `24.11`, or `all`; empty for the one in
    the lock. Raises InputError if there is no such version, or the lock cannot be read.
    """
    if not slurm:
        return version_of(locks.load(shared_files.lock_path(path)))
    try:
        return None if slurm == ALL else SlurmVersion.parse(slurm)
    except SlurmfabError as error:
        raise InputError(f"--slurm {slurm}: {error} Or: --slurm {ALL}.") from None


def version_of(lock: Lock) -> SlurmVersion | None:
    """The Slurm of a cluster, by its lock; the oldest if hosts differ, and `None` where none is installed yet."""
    return min(map(SlurmVersion.parse, lock.slurm_versions), default=None)


def provide(path: Path, lock: Lock) -> None:
    """Write the schema of a new cluster file, unless somebody else has that file; InputError if it cannot be."""
    place = schema_path(path)
    if not place.exists() or OURS in beginning(place):
        atomic_file.write(place, text(version_of(lock)), new=atomic_file.READABLE_BY_ALL)


def renew(path: Path, lock: Lock) -> None:
    """Write the schema of a cluster file anew if it is there, and another slurmfab made it, or for another Slurm.

    It is only for editors: a file that cannot be written stays as it is. `lock`: says which Slurm is installed.
    """
    place = schema_path(path)
    there = beginning(place)
    if OURS in there and made_from(version_of(lock)) not in there:
        with suppress(InputError):
            provide(path, lock)


def beginning(place: Path) -> str:
    """The first lines of a file; empty where there is none."""
    with suppress(OSError, BrokenFile):
        return bounded_file.read(place, _MOST_BYTES)[:_FIRST_LINES].decode(errors="replace")
    return ""


def _written(value: Any, indent: str, *, is_open: bool = True) -> str:
    """JSON with a line for each key of a mapping that has keys of the cluster file."""
    if not isinstance(value, dict) or not is_open:
        return json.dumps(value)
    inner = indent + "  "
    lines = [
        f"{inner}{json.dumps(key)}: "
        + _written(one, inner, is_open=key in _OPENED or (isinstance(one, dict) and "properties" in one))
        for key, one in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
