"""Rules between `idle_gpus` and the rest of a cluster file."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.rules.power import unknown
from slurmfab.cluster.inventory.slurm_settings import Place


def policy_can_be_carried_out(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """There is mail where users are told by mail, its partitions exist, and the slurm user may end jobs."""
    policy = cluster.idle_gpus
    if policy is None:
        return
    names = [one.name for one in cluster.partitions]
    yield from unknown(("idle_gpus", "partitions"), policy.partitions, names, f"not a partition ({', '.join(names)})")
    own_mail = any(key.lower() == "mailprog" for key in cluster.slurm_conf)
    if policy.mail == "user" and cluster.mail is None and not own_mail:
        yield ("idle_gpus", "mail"), "users get mail only with the key mail at the top; or write mail: nobody"


RULES = (policy_can_be_carried_out,)
