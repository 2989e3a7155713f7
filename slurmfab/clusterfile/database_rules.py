"""What must hold of a cluster's database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = ()
