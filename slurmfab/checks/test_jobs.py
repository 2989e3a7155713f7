"""Jobs: what the cluster is for. They run as the slurm user, one CPU and a little memory each."""

from __future__ import annotations

import pytest

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.node_state import is_ready
from slurmfab.checks.slurm import Slurm, job_words
from slurmfab.cluster import Cluster
from slurmfab.hostlist import fold
from slurmfab.lock import Lock

LOGS = "Repair: see /var/log/slurm/slurmd.log there"


def test_job_runs(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job runs on the node"""
    done = slurm.run((node.name,), "uname -n")
    assert done.rc == 0, f"the job failed: {job_words(done)}. {LOGS}"
    names = [line.split(".")[0] for line in done.stdout.split()]
    assert names == [hostname(lock, node.name)], f"the job ran on {' '.join(names) or 'nobody knows where'}. {LOGS}"


def test_job_runs_on_many_nodes(slurm: Slurm, nodes: tuple[str, ...], cluster: Cluster, lock: Lock) -> None:
    """one job runs on all nodes at once"""
    ready = tuple(name for name in widest_partition(cluster, nodes) if is_ready(slurm.node(name)))
    if len(ready) < 2:
        pytest.skip("there are no two sound nodes in one partition.")
    done = slurm.run(ready, "uname -n")
    assert done.rc == 0, f"the job on {fold(ready)} failed: {job_words(done)}. {LOGS}"
    seen = {line.split(".")[0] for line in done.stdout.split()}
    missing = [name for name in ready if hostname(lock, name) not in seen]
    assert not missing, f"the job on {fold(ready)} did not run on {fold(missing)}. {LOGS}"


def widest_partition(cluster: Cluster, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the nodes that are in one partition, in the partition that has most of them."""
    return max(
        (
            tuple(name for name in nodes if partition.nodes == "ALL" or name in partition.nodes)
            for partition in cluster.partitions
        ),
        key=len,
    )


def hostname(lock: Lock, node: str) -> str:
    """What a node calls itself."""
    return lock.hosts[node].hostname if node in lock.hosts and lock.hosts[node].hostname else node
