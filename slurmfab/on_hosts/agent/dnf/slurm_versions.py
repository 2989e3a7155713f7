"""What a host with rpm has of Slurm's packages, as an upgrade needs to know it."""

from __future__ import annotations

import fnmatch
import hashlib
import time
from typing import Dict, FrozenSet, Iterable, Tuple

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.dnf import dnf, rpm_database
from slurmfab.on_hosts.agent.packages.unfinished import is_locked

LOCK_SECONDS = 120.0
PATHS = "[%{FILENAMES}\\t\\n]"  # a line for each file of a package


def versions(context: Context, wanted: Iterable[str]) -> Dict[str, str]:
    """Version and release of each installed package of Slurm's. `wanted`: names, or patterns of names."""
    return chosen(printed_of_all(context), wanted)


def chosen(printed: str, wanted: Iterable[str]) -> Dict[str, str]:
    """The same of what `printed_of_all` has returned."""
    patterns, there = tuple(wanted), sorted(rpm_database.rows(printed))
    return {name: version for name, version in there if any(fnmatch.fnmatchcase(name, one) for one in patterns)}


def printed_of_all(context: Context) -> str:
    """Name and version of all packages."""
    return dnf.printed(context, ["--all"])


def read(context: Context, wanted: Iterable[str]) -> Tuple[Dict[str, str], FrozenSet[str], str]:
    """Versions of Slurm's packages, their files, and a digest of all packages; waits while one is installed."""
    deadline = time.monotonic() + LOCK_SECONDS
    while is_locked(context.root, dnf.LOCKS) and time.monotonic() < deadline:
        time.sleep(0.2)
    printed = printed_of_all(context)
    own = chosen(printed, wanted)
    paths = rpm_database.rows(dnf.printed(context, [*own], PATHS)) if own else []
    lines = sorted(printed.splitlines())
    return own, frozenset(path for path, _ in paths), hashlib.sha256("\n".join(lines).encode()).hexdigest()
