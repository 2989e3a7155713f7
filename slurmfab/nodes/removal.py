"""`fab remove-node`: compute nodes leave a cluster that is at work, and no job is lost.

The files are written last. A run that is cut off has thus only to be repeated: what is done already is found done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurmfab import deploy as deployment
from slurmfab import inventory, operations
from slurmfab import lock as locks
from slurmfab.agent.node_drain import NodeDrain
from slurmfab.agent.node_jobs import JobsEnded
from slurmfab.agent.service import Service
from slurmfab.clusterfile import cuts, writing
from slurmfab.errors import HostlistError, InputError, SlurmfabError, Unreachable
from slurmfab.hostlist import expand, fold
from slurmfab.inventory import Inventory
from slurmfab.nodes import departure, draining
from slurmfab.nodes.changes import change, change_each
from slurmfab.operations import Output
from slurmfab.run import Run
from slurmfab.signature import stamp
from slurmfab.status import snapshot

WHY = "it leaves the cluster"
LEAST_SECONDS = 1.0
"""What `--timeout 0` waits for jobs that are just ending."""


@dataclass(frozen=True)
class Leave:
    """How nodes leave.

    Args:
        minutes: how long to wait for running jobs; `None` for as long as they take.
        now: whether to cancel them instead.
        purge: whether to remove packages as well.
        empty_partition: whether a partition may be left without nodes.
    """

    minutes: int | None = None
    now: bool = False
    purge: bool = False
    empty_partition: bool = False


def remove_node(cluster: str, hosts: str, leave: Leave, output: Output) -> int:
    """Drain nodes, wait for their jobs, take them out of all files, and clean them.

    Returns:
        The exit code: 3 when a node is out of the cluster but could not be reached to clean it.

    Raises:
        InputError: a host is no compute node that could leave; nothing was touched.
        SlurmfabError: jobs did not end in time, or a host failed; the files are as before.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    leaving = expand(hosts)
    refuse(known, leaving, empty_partition=leave.empty_partition)
    text = cuts.without_nodes(inventory.read_text(known.path), leaving)
    run = operations.start(known, "", output, command="remove-node")
    return operations.perform(run, output, lambda begun: carry_out(begun, leaving, text, leave))


def refuse(known: Inventory, leaving: tuple[str, ...], *, empty_partition: bool) -> None:
    """Refuse hosts that cannot leave, before anybody is asked.

    Raises:
        InputError: with all reasons.
    """
    cluster = known.cluster
    strangers = [host for host in leaving if host not in cluster.hosts]
    others = [host for host in leaving if host in cluster.hosts and cluster.roles(host) != ("compute",)]
    reasons = []
    if strangers:
        reasons.append(f"{fold(strangers)}: not in {known.path} (known: {fold(cluster.compute_nodes)}).")
    reasons += [
        f"{host}: it is {' and '.join(cluster.roles(host))} here; only what is a compute node alone can be removed."
        for host in others
    ]
    left = set(cluster.compute_nodes) - set(leaving)
    if not left:
        reasons.append("No compute node would be left, and Slurm needs at least one.")
    emptied = [one.name for one in cluster.partitions if one.nodes and one.nodes != "ALL" and not left & set(one.nodes)]
    if left and emptied and not empty_partition:
        reasons.append(
            f"{', '.join(emptied)}: no node would be left in the partition, and its jobs would wait for ever. Say "
            "--allow-empty-partition if that is meant."
        )
    if reasons:
        raise InputError("\n".join((*reasons, "Nothing was changed.")))


def carry_out(run: Run, leaving: tuple[str, ...], text: str, leave: Leave) -> None:
    """Drain, wait, stop, deploy to the others, clean, and write the files.

    Raises:
        SlurmfabError: jobs did not end in time, or a host failed; the files are as before.
    """
    known, everybody = run.inventory, run.hosts
    vacate(run, leaving, leave)
    change_each(run, "slurmd stop", leaving, *departure.stopped())
    lock = locks.without_hosts(known.lock, leaving)
    run.inventory = Inventory(inventory.parse(text, str(known.path)), lock, known.path)
    run.hosts = tuple(host for host in everybody if host not in leaving)
    kept = {host: known.lock.hosts[host] for host in leaving if host in known.lock.hosts}
    run.keep = lambda now: operations.keep_lock(replace(now, lock=replace(now.lock, hosts={**now.lock.hosts, **kept})))
    deployment.deploy(run)
    change_each(run, "leaving", run.well(leaving), *departure.cleaned(purge=leave.purge))
    broken = [host for host in leaving if host in run.lost and not isinstance(run.lost[host], Unreachable)]
    if broken:
        raise SlurmfabError(
            f"{run.lost[broken[0]]}\nSlurm does not know {fold(leaving)} any more; {run.inventory.path} still does. "
            "Mend that and run the same command again."
        )
    writing.write(run.inventory.path, text)
    operations.keep_lock(run.inventory)
    run.progress.line(f"{run.inventory.path}: {fold(leaving)} is out of it.")
    say_unclean(run, leaving)


def vacate(run: Run, leaving: tuple[str, ...], leave: Leave) -> None:
    """Drain nodes and see that no job is left on them, nor any that could only run there.

    Raises:
        SlurmfabError: jobs are left.
    """
    # A run that was cut off may have left it stopped, and without it nobody knows of jobs.
    change(run, "slurmctld", run.controller, Service("slurmctld"))
    doomed = held(run, leaving, may_cancel=leave.now)
    seen = snapshot.ask_up(run.transport, run.controller, draining.PARTS)
    known = tuple(node for node in leaving if node in seen.by_name)
    jobs = draining.jobs_on(seen, known)
    if known:
        change(run, "drain", run.controller, NodeDrain(known, WHY, stamp()))
    if leave.now and (jobs or doomed):
        words = f"{draining.job_words(jobs)}{' and ' if jobs and doomed else ''}{', '.join(doomed)}"
        run.progress.line(f"Cancelling {words}.")
        ids = tuple(dict.fromkeys((*(job.id for job in jobs), *doomed)))
        change(run, "cancel", run.controller, JobsEnded(ids, known, stamp()))
    elif jobs:
        run.progress.line(f"Waiting for {draining.job_words(jobs)} on {fold(known)}.")
    if known:
        limit = 0.0 if leave.minutes is None else max(leave.minutes * 60.0, LEAST_SECONDS)
        draining.wait_until_empty(run, known, limit)
    refuse_busy(run, leaving)


def held(run: Run, leaving: tuple[str, ...], *, may_cancel: bool) -> tuple[str, ...]:
    """The ids of pending jobs that ask for these nodes by name.

    Raises:
        SlurmfabError: there are some and they may not be cancelled, or a reservation has one of the nodes.
    """
    lines = run.transport.call(run.controller, {"op": "node-jobs"})
    found: dict[str, Any] = next(line["node_jobs"] for line in lines if "node_jobs" in line)
    wanted = set(leaving)
    reserved = [name for name, nodes in found["reservations"].items() if wanted & members(nodes)]
    if reserved:
        raise SlurmfabError(
            f"{', '.join(reserved)}: this reservation has nodes that shall leave. Change or delete it first: scontrol "
            f"delete ReservationName={reserved[0]}. Nothing was changed."
        )
    pending = [job for job in found["pending"] if wanted & members(job["wants"])]
    if pending and not may_cancel:
        told = ", ".join(f"{job['id']} ({job['user']}, wants {job['wants']})" for job in pending)
        raise SlurmfabError(
            f"Pending jobs ask for these nodes by name and would be lost: {told}. Wait for them, change them (scontrol "
            "update JobId=ID ReqNodeList=NODES), or say --now, which cancels them. Nothing was changed."
        )
    return tuple(job["id"] for job in pending)


def members(hostlist: str) -> set[str]:
    """The hosts in a hostlist of Slurm's; none where it is none of ours."""
    try:
        return set(expand(hostlist))
    except HostlistError:
        return set()


def refuse_busy(run: Run, leaving: tuple[str, ...]) -> None:
    """Stop if the time to wait was not enough.

    Raises:
        SlurmfabError: jobs are left; the nodes stay drained.
    """
    busy = [node for node in leaving if node in run.lost]
    if busy:
        raise SlurmfabError(
            f"{fold(busy)}: jobs still run there, and nothing was taken out. Run the same command again later, say "
            f"--now to cancel them, or take the drain back: fab resume {fold(busy)}."
        )


def say_unclean(run: Run, leaving: tuple[str, ...]) -> None:
    """Tell which hosts are out of the cluster but were not cleaned."""
    unclean = [host for host in leaving if host in run.lost]
    if unclean:
        run.progress.line(
            f"{fold(unclean)} could not be reached, so its munge key, keys and daemons are still there. If it ever "
            "comes back: systemctl disable --now slurmd munge; rm /etc/munge/munge.key /etc/slurm/slurm.conf."
        )
