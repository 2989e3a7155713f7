"""The key `configless`: compute nodes fetch Slurm's files from slurmctld, and have none of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

OPTION = "enable_configless"
"""The option of SlurmctldParameters with which slurmctld serves its files (slurm.conf(5))."""


def somebody_fetches(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A controller reads its own files, also where it is a compute node as well."""
    if cluster.configless and not any(map(cluster.fetches, cluster.compute_nodes)):
        yield (
            ("configless",),
            "every compute node is a controller as well, which has its own files: nobody would fetch any",
        )


def nothing_is_against_it(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """What slurmctld does not serve files with, or slurmd does not find its directory with."""
    for key, value in cluster.slurm_conf.items() if cluster.configless else ():
        if key.lower() == "slurmctldparameters" and value is None:
            yield ("slurm_conf", key), f"null leaves the line out, and configless needs {OPTION} in it; remove this key"
        if key.lower() == "slurmdspooldir" and "%n" in (value or ""):
            yield (
                ("slurm_conf", key),
                "configless allows no %n in it: slurmd keeps the files there that would tell it its NodeName",
            )


def it_is_said_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A slurmctld that serves files to slurmds which have their own is only a source of errors in their logs."""
    for key, value in cluster.slurm_conf.items() if not cluster.configless else ():
        words = {word.strip().lower() for word in (value or "").split(",")}
        if key.lower() == "slurmctldparameters" and OPTION in words:
            yield (
                ("slurm_conf", key),
                f"{OPTION} alone makes no node fetch files; say configless: true at the top",
            )


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (
    somebody_fetches,
    nothing_is_against_it,
    it_is_said_once,
)
