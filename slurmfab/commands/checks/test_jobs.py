"""Checks that jobs run: the slurm user's, with one CPU per node and little memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import user_jobs
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.node_state import is_ready
from slurmfab.commands.checks.slurm import JOB_LOGS, Slurm
from slurmfab.commands.checks.wanted import deploy

SIGPIPE = 1 << (13 - 1)  # its bit among the signals that a process ignores (proc(5), SigIgn; signal(7))

MOST_NAMED = 3
MOST_TRIED = 64  # how many nodes have a batch job of a user, one each


def test_job_runs(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job runs on the node"""
    name = slurm.told_by(node.name).hostname
    assert name.split(".")[0] == hostname(lock, node.name), f"the job ran on {name}. {JOB_LOGS}"


def test_batch_job_of_a_user_runs(node: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """a batch job of an ordinary user runs on the node, with a step by srun"""
    if node.name not in cluster.compute_nodes[:MOST_TRIED]:
        raise DoesNotApply(f"such a job runs on the first {MOST_TRIED} nodes alone")
    who = slurm.ordinary
    if who is None or node.run("id %s", who.name).rc:
        raise DoesNotApply("it knows no ordinary user of the cluster file who may run jobs")
    failed = user_jobs.batch_job(slurm, who, node)
    assert not failed, failed


def test_running_jobs_have_processes(node: CheckedHost, slurm: Slurm) -> None:
    """each job that Slurm calls running here has a process here"""
    found = slurm.lost_on(node)
    assert not found, (
        f"{'; '.join(f'{one.name}: {one.why}' for one in found[:MOST_NAMED])}"
        f"{f'; and {len(found) - MOST_NAMED} more' if len(found) > MOST_NAMED else ''}. They keep what they asked for "
        f"until Slurm takes them back. Repair: {FAB} deploy, which puts them back into the queue"
    )


def test_jobs_do_not_ignore_sigpipe(pipe_node: CheckedHost, slurm: Slurm) -> None:
    """programs in jobs end when nobody reads what they write, as elsewhere (SIGPIPE)"""
    assert not slurm.told_by(pipe_node.name).ignored & SIGPIPE, (
        "jobs start with SIGPIPE ignored, because slurmd was started so: `yes | head -1` does not end as it should. "
        f"Repair: {deploy(pipe_node.name)}; if that changes nothing: systemctl restart slurmd there, which no job minds"
    )


def test_job_runs_on_many_nodes(
    slurm: Slurm, nodes: Mapping[str, str], others: Mapping[str, CheckedHost], cluster: Cluster
) -> None:
    """one job runs on all nodes at once"""
    asked = widest_partition(cluster, tuple(nodes))
    if len(asked) < 2:
        raise DoesNotApply("no partition has two nodes")
    silent = [name for name in asked if name not in others]
    known = slurm.nodes_now()
    out = {name: why for name in asked if name in others and (why := why_not(known.get(name, {}), nodes[name]))}
    ready = tuple(name for name in asked if name not in {*out, *silent})
    if len(ready) > 1:
        told = slurm.told_by_all(ready)
        missing = [name for name in ready if name not in told]
        assert not missing, f"the job on {fold(ready)} did not run on {fold(missing)}. {JOB_LOGS}"
    reasons = "; ".join(f"{name}: {why}" for name, why in list(out.items())[:MOST_NAMED])
    assert not out, (
        f"no job runs on {fold(out)} now ({reasons}), so none runs on all nodes. "
        f"Repair: what the other failed checks of {fold(out)} say"
    )
    if silent:
        pytest.skip(f"{fold(silent)} does not answer.")


def why_not(record: Mapping[str, str], failed: str) -> str:
    """Why a node takes no job; empty if it does. `failed` is a needed service's check that failed there."""
    if failed:
        return f"it has failed that {failed}"
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
