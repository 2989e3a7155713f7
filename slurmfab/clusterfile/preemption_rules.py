"""What must hold between partitions and QOS when jobs of some give way to jobs of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slurmfab.slurm.preemption import preempts_by_partition, preempts_by_qos

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place


def one_way_to_preempt(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A cluster has one PreemptType (slurm.conf(5)), so either partitions decide who gives way, or QOS do."""
    if any(key.lower() == "preempttype" for key in cluster.slurm_conf):
        return
    if preempts_by_partition([one.settings for one in cluster.partitions]):
        for number, qos in enumerate(cluster.qos):
            if preempts_by_qos([qos.settings]):
                yield (
                    ("qos", number),
                    (
                        f'"{qos.name}" preempts by Preempt, and partitions preempt by PriorityTier and PreemptMode; '
                        "Slurm knows one way only. Remove one of them, or choose by slurm_conf: {PreemptType: …}"
                    ),
                )


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (one_way_to_preempt,)
