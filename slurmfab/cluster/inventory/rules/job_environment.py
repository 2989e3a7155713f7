"""Rules about the variables of jobs, and about the scripts around jobs."""

from __future__ import annotations

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Complaints


def variables_of_known_nodes(cluster: Cluster) -> Complaints:
    """A group's variables are for compute nodes of the cluster."""
    known = frozenset(cluster.compute_nodes)
    for number, group in enumerate(cluster.job_environment.groups if cluster.job_environment else ()):
        strange = [host for host in group.hosts if host not in known]
        if strange or not group.hosts:
            reason = (
                f'"{fold(strange)}" is not a compute node' if strange else "it is empty; it needs at least one node"
            )
            yield ("job_environment", "groups", number, "hosts"), reason


def one_task_prolog(cluster: Cluster) -> Complaints:
    """Slurm runs one TaskProlog (slurm.conf(5)), and slurmfab's gives jobs their variables."""
    for key in cluster.slurm_conf if cluster.job_environment else ():
        if key.lower() == "taskprolog":
            yield ("slurm_conf", key), "job_environment writes it, and Slurm has one; remove one of the two keys"


def scripts_of_known_nodes(cluster: Cluster) -> Complaints:
    """A node has one directory of scripts of a kind."""
    known = frozenset(cluster.compute_nodes)
    for key, scripts in (("prolog", cluster.prolog), ("epilog", cluster.epilog)):
        seen = set[str]()
        for hosts, directory in scripts if isinstance(scripts, tuple) else ():
            strange, again = sorted(hosts - known), sorted(hosts & seen)
            seen |= hosts
            if strange:
                yield (key,), f'"{fold(strange)}" is not a compute node ({directory})'
            if again:
                yield (key,), f'"{fold(again)}" has two directories of scripts; one of them is {directory}'
