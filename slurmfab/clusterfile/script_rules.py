"""What must hold of what daemons run for the cluster file: prolog, epilog and the health check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

_SAID_ELSEWHERE = {
    "prolog": ("Prolog",),
    "epilog": ("Epilog",),
    "health": ("HealthCheckProgram", "HealthCheckInterval"),
}


def slurm_runs_one_thing(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmd runs our program or somebody else's, and with the former these keys are ours."""
    own = {key.lower(): key for key in cluster.slurm_conf}
    for name, keys in _SAID_ELSEWHERE.items():
        for key in keys if getattr(cluster, name) is not None else ():
            if key.lower() in own:
                yield ("slurm_conf", own[key.lower()]), f"the key {name} at the top says this; one of both has to go"


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (slurm_runs_one_thing,)
