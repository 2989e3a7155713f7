"""What must hold between the people of a cluster, where they are to be users of the hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = ()
