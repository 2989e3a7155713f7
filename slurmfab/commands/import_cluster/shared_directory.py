"""The directory of Slurm's files that all hosts of a found cluster share, where they certainly do."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.inventory.rules.storage import taken
from slurmfab.cluster.inventory.values import check_directory
from slurmfab.cluster.slurm.conf_text import INCLUDE
from slurmfab.commands.import_cluster.old_cluster import OldCluster

MAIN = "slurm.conf"
FILES = ("gres.conf", "cgroup.conf", "job_container.conf")
"""Files that the primary controller would write there for all hosts, besides slurm.conf."""


def shared_directory(old: OldCluster) -> str:
    """Where /etc/slurm/slurm.conf leads on every host, if that is one file that all of them surely read."""
    own = [files for files in old.found.hosts.values() if files.file(MAIN)]
    mains = [found for files in own if (found := files.file(MAIN))]
    places = {one.link for one in mains if one.path == f"{SLURM_DIRECTORY}/{MAIN}"} if len(mains) > 1 else set()
    marks = {files.mark for files in own}
    is_sure = len(places) == len(marks) == 1 and "" not in {*places, *marks} and not old.found.unreachable
    is_whole = not any(map(INCLUDE.match, mains[0].text.splitlines())) if mains else False
    if not is_sure or not is_whole or len(own) != len(old.found.hosts):
        return ""
    directory = posixpath.dirname(places.pop())
    return "" if any(others(old, directory)) or not may_be_named(old, directory) else directory


def may_be_named(old: OldCluster, directory: str) -> bool:
    """Whether a cluster file may name this directory: root's alone, and apart from the state, which is slurm's."""
    try:
        check_directory(directory)(directory)
    except ValueError:
        return False
    here, state = f"{directory}/", f"{old.setting('StateSaveLocation') or directory + '.state'}/"
    is_fetched = any(files.configless for files in old.found.hosts.values())
    return not (taken(directory) or is_fetched or here.startswith(state) or state.startswith(here))


def others(old: OldCluster, directory: str) -> Iterator[str]:
    """Yield the paths of Slurm's files on hosts that are not in a directory."""
    for files in old.found.hosts.values():
        for name in FILES:
            if (found := files.file(name)) and posixpath.dirname(found.link) != directory:
                yield found.path
