"""What must hold of the backups that hosts make by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place


def backups_lie_elsewhere(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A backup that lies in what is saved would be saved with it, and lost with it."""
    if cluster.backup is None:
        return
    place = f"{cluster.backup.directory}/"
    for saved in (cluster.state_directory, "/etc/slurm"):
        if place.startswith(f"{saved}/") or f"{saved}/".startswith(place):
            yield (
                ("backup", "directory"),
                f'"{place[:-1]}" and {saved}, which is saved, lie in each other',
            )


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (backups_lie_elsewhere,)
