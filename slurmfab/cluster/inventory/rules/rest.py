"""Rules about slurmrestd."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place


def slurmrestd_has_slurms_files(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """It reads slurm.conf, and runs beside what users of the cluster use; jobs have no business on its host."""
    if cluster.rest and not {"controller", "login"} & set(cluster.roles(cluster.rest)):
        yield ("rest",), f'"{cluster.rest}" is neither a controller nor a login host of this cluster'


def tokens_are_slurmfabs(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmdbd proves the tokens that slurmctld makes, by the same key."""
    for key in cluster.slurmdbd_conf if cluster.rest else ():
        if key.lower() in ("authalttypes", "authaltparameters"):
            yield ("slurmdbd_conf", key), f"slurmfab writes {key} itself, for the key rest at the top; remove this one"


RULES = (slurmrestd_has_slurms_files, tokens_are_slurmfabs)
