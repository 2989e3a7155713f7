"""Checks that jobs run: the slurm user's, with one CPU per node and little memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.node_state import is_ready
from slurmfab.commands.checks.slurm import Slurm, job_words
from slurmfab.commands.checks.wanted import deploy

IGNORED = "grep SigIgn: /proc/self/status"
SIGPIPE = 1 << (13 - 1)  # its bit among the signals that a process ignores (proc(5), SigIgn; signal(7))

LOGS = "Repair: see /var/log/slurmd/slurmd.log there"
MOST_NAMED = 3


def test_job_runs(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job runs on the node"""
    done = slurm.run((node.name,), "uname -n")
    assert done.rc == 0, f"the job failed: {job_words(done)}. {LOGS}"
    names = [line.split(".")[0] for line in done.stdout.split()]
    assert names == [hostname(lock, node.name)], f"the job ran on {' '.join(names) or 'an unknown host'}. {LOGS}"


def test_jobs_do_not_ignore_sigpipe(pipe_node: CheckedHost, slurm: Slurm) -> None:
    """programs in jobs end when nobody reads what they write, as elsewhere (SIGPIPE)"""
    done = slurm.run((pipe_node.name,), IGNORED)
    assert done.rc == 0, f"the job failed: {job_words(done)}. {LOGS}"
    assert not int(done.stdout.split()[-1], 16) & SIGPIPE, (
        "jobs start with SIGPIPE ignored, because slurmd was started so: `yes | head -1` does not end as it should. "
        f"Repair: {deploy(pipe_node.name)}; if that changes nothing: systemctl restart slurmd there, which no job minds"
    )


def test_job_runs_on_many_nodes(
    slurm: Slurm, nodes: Mapping[str, str], others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """one job runs on all nodes at once"""
    asked = widest_partition(cluster, tuple(nodes))
    if len(asked) < 2:
        raise DoesNotApply("no partition has two nodes")
    silent = [name for name in asked if name not in others]
    out = {name: why for name in asked if name in others and (why := why_not(slurm, name, nodes[name]))}
    ready = tuple(name for name in asked if name not in {*out, *silent})
    if len(ready) > 1:
        done = slurm.run(ready, "uname -n")
        assert done.rc == 0, f"the job on {fold(ready)} failed: {job_words(done)}. {LOGS}"
        seen = {line.split(".")[0] for line in done.stdout.split()}
        missing = [name for name in ready if hostname(lock, name) not in seen]
        assert not missing, f"the job on {fold(ready)} did not run on {fold(missing)}. {LOGS}"
    told = "; ".join(f"{name}: {why}" for name, why in list(out.items())[:MOST_NAMED])
    assert not out, (
        f"no job runs on {fold(out)} now ({told}), so none runs on all nodes. "
        f"Repair: what the other failed checks of {fold(out)} say"
    )
    if silent:
        pytest.skip(f"{fold(silent)} does not answer.")


def why_not(slurm: Slurm, node: str, failed: str) -> str:
    """Why a node takes no job; empty if it does. `failed` is a needed service's check that failed there."""
    if failed:
        return f"it has failed that {failed}"
    record = slurm.node(node)
    return "" if is_ready(record) else f"its state in Slurm is {record.get('State', 'UNKNOWN')}"


def widest_partition(cluster: Cluster, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The largest set of these nodes that is in one partition."""
    return max(
        (
            tuple(name for name in nodes if partition.nodes == "ALL" or name in partition.nodes)
            for partition in cluster.partitions
        ),
        key=len,
        default=(),
    )


def hostname(lock: Lock, node: str) -> str:
    """The hostname of a node by the lock, else its name in the cluster file."""
    return lock.hosts[node].hostname if node in lock.hosts and lock.hosts[node].hostname else node
