"""The cluster file, its lock, and the directory in which they are."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from slurmfab.base import surroundings
from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import fabfile, loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.doctor.finding import Finding, failure, ok, warning
from slurmfab.on_hosts.agent.core.listing import first_of

SECONDS = 10
MOST_COMPLAINTS = 3


def load(path: Path) -> tuple[Inventory | None, tuple[Finding, ...]]:
    """The cluster, where its files can be loaded, and what is to be said of them."""
    if not path.exists():
        text = f"there is no {path} yet; a first contact writes it: {FAB} deploy --hosts 'n1,n[2-5]'"
        return None, (ok("cluster file", text),)
    try:
        known = loading.load(path)
    except ClusterFileError as error:
        return None, (failure("cluster file", "\n".join(first_of(error.complaints, MOST_COMPLAINTS))),)
    except InputError as error:
        return None, (failure("cluster file", str(error)),)
    lock = loading.lock_path(path)
    locked = f"{lock.name} knows {len(known.lock.hosts)} of them" if lock.exists() else "not deployed yet"
    return known, (ok("cluster file", f"{path}: {known.cluster.name}, {len(known.cluster.hosts)} hosts; {locked}"),)


def writable(path: Path) -> Iterator[Finding]:
    """Yield whether runs can write their results. `path`: of the cluster file, which may not exist yet."""
    there = next(place for place in (path.parent, *path.absolute().parents) if place.is_dir())
    files = (path, loading.lock_path(path), path.with_name(f"{path.stem}.runs"))
    closed = [str(one) for one in (there, *files) if one.exists() and not os.access(one, os.W_OK)]
    if closed:
        text = f"{', '.join(closed)}: not writable for you, so runs cannot keep their lock and records."
        yield failure("directory", text, "Give the files to yourself, or work as their owner.")
    else:
        yield ok("directory", f"{there.absolute()} is writable")


def tasks_for_fab(path: Path) -> Iterator[Finding]:
    """Yield whether `fab` finds its tasks where the cluster file belongs."""
    place = (path.parent.parent if path.parent.name == fabfile.DIRECTORY else Path()).absolute()
    found = next((one for above in (place, *place.parents) for one in [above / "fabfile.py"] if one.is_file()), None)
    if found:
        yield ok("fabfile", f"{found}, by which fab finds its tasks")
    else:
        yield ok("fabfile", "none here, so only slurmfab works; a first contact writes one for fab")


def in_git(path: Path) -> Iterator[Finding]:
    """Yield whether the cluster file and its lock are committed. `path`: of the cluster file, which exists."""
    if not shutil.which("git"):
        yield warning("git", "it is not installed, so nothing keeps older versions of the cluster file.")
        return
    names = [one.name for one in (path, loading.lock_path(path)) if one.exists()]
    directory = str(path.absolute().parent)
    if ask_git(directory, "rev-parse", "--is-inside-work-tree") is None:
        text = f"{path} is in no repository, so nobody sees what it was before."
        place = Path(directory).parent if Path(directory).name == fabfile.DIRECTORY else Path(directory)
        found = [one for one in (fabfile.DIRECTORY, "fabfile.py") if (place / one).exists()]
        adds = " ".join(found if place != Path(directory) else names)
        yield warning("git", text, f"Repair: cd {shlex.quote(str(place))}; git init; git add {adds}; git commit")
        return
    changed = [f"{name} {word}" for name in names if (word := uncommitted(directory, name))]
    if changed:
        yield warning("git", f"{', '.join(changed)}: colleagues and CI see another cluster.", "Commit it.")
    else:
        yield ok("git", f"committed: {', '.join(names)}")


def uncommitted(directory: str, name: str) -> str:
    """In which way a file is not as it was committed; empty if it is. `git status` would run a repository's filters."""
    if ask_git(directory, "check-ignore", "--", name):
        return "ignored by git"
    if not ask_git(directory, "ls-files", "--", name):
        return "not added"
    committed = (ask_git(directory, "ls-tree", "HEAD", "--", name) or "").split()
    present = (ask_git(directory, "hash-object", "--no-filters", "--", name) or "").strip()
    return "" if committed[2:3] == [present] else "not committed"


def ask_git(directory: str, *words: str) -> str | None:
    """What git says in a directory; `None` where it refuses, as outside of repositories."""
    command, environment = surroundings.git(directory, *words), surroundings.git_environment()
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    return said.stdout if said.returncode == 0 else None
