"""Rules about where Slurm's own packages come from."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.paths import SLURM_SOURCE_FILES
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place


def files_of_the_source_are_slurmfabs(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Of two contents for one file, only one would be there."""
    for path in SLURM_SOURCE_FILES if cluster.slurm.source is not None else ():
        if path in cluster.files:
            yield ("files", path), "slurmfab writes it for the key slurm"


RULES = (files_of_the_source_are_slurmfabs,)
