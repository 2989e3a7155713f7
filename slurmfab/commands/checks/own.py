"""A site's own checks, `checks/test_*.py` beside the cluster file, run here as slurmfab's are."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from slurmfab.base import foreign
from slurmfab.base.errors import HostError
from slurmfab.commands.checks.results import cause_and_repair

PREFIX = "own-"  # how the groups of these checks begin
ALL = "own"  # the word that selects all of them
MODULES = (".py", ".so", ".pyc")  # how names end of what Python imports
CONFTEST = "conftest.py"  # fixtures and hooks of the site's own

LOADS, TITLE = "file_loads", "the file with the site's own checks is used"
"""Name and title of the check of a file itself, which is a result only where it fails."""


def directory(cluster_file: Path) -> Path:
    """The directory of a site's own checks."""
    return cluster_file.resolve().parent / "checks"


def files(cluster_file: Path) -> list[Path]:
    """The files with a site's own checks, in the order in which they run."""
    return sorted(directory(cluster_file).glob("test_*.py"))


def loaded(cluster_file: Path) -> list[Path]:
    """What Python may load for checks and has none: conftest.py, modules with their directories, and packages above."""
    top, found = directory(cluster_file), set[Path]()
    for above, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {Path(above, name) for name in (*folders, *names) if name in folders or name.endswith(MODULES)}
    while (package := top / "__init__.py").exists():  # pytest imports a package before what is in it
        found.add(package)
        top = top.parent
    return sorted(found - {*files(cluster_file)})


def trusted(cluster_file: Path) -> foreign.Trusted:
    """Those whose checks run here."""
    return foreign.own(cluster_file.resolve().parent)


def group_of(path: Path) -> str:
    """The group of the checks in a file: `own-motd` for test_motd.py."""
    return PREFIX + path.stem.removeprefix("test_")


def why_unsafe(path: Path, cluster_file: Path) -> str:
    """Why a file with checks is not run; empty if nobody else could write it."""
    why = foreign.why_unsafe(path, trusted(cluster_file))
    return f"{why}, and what is in it would run as you. Nothing in this file was run." if why else ""


def why_broken(error: BaseException) -> str:
    """Why pytest cannot load a file, in one sentence; of an import that fails, it has only the text."""
    first = error.__cause__ or error
    return f"it cannot be loaded: {type(first).__name__}: {' '.join(str(first).split())}"


def explained(error: BaseException, path: Path) -> tuple[str, str]:
    """Cause and repair of a site's own check that failed; the repair is empty if it tells none."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{path.name}, line {lines[-1]}" if lines else path.name
    if isinstance(error, HostError):
        return str(error), ""
    if not isinstance(error, AssertionError):
        return f"the check itself is broken ({type(error).__name__}: {error}; {place}).", ""
    cause, repair = cause_and_repair(str(error))
    # An assertion without a message has what pytest tells of it: what was compared, and where each value is from.
    return ", ".join(line.strip().lstrip("+ ") for line in cause.splitlines()[:2]) or place, repair
