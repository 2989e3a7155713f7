"""Waiting for the jobs on compute nodes: which jobs have nodes, and polling Slurm until those jobs have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from slurmfab.base.errors import HostError
from slurmfab.base.grouping import grouped
from slurmfab.core.engine.run import Run
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Job, Snapshot
from slurmfab.on_hosts.agent.core.listing import listed

NODES_AND_JOBS = ("nodes", "jobs")  # the parts of a snapshot that show which jobs have which nodes
POLL_SECONDS = 2.0  # seconds between two snapshots
SILENCE_SECONDS = 300.0  # after this many seconds without an answer from the controller, waiting is given up
MOST_JOBS_NAMED = 10  # a message names this many jobs, and counts the others


def nodes_and_jobs(run: Run) -> Snapshot:
    """Slurm's nodes and jobs, as the controller tells them now; HostError if it, or its slurmctld, does not answer."""
    return snapshot.ask_up(run.transport, run.controller, NODES_AND_JOBS)


def jobs_on(current: Snapshot, nodes: Iterable[str]) -> tuple[Job, ...]:
    """The jobs that have at least one of these nodes."""
    wanted = set(nodes)
    return tuple(job for job in current.jobs if wanted.intersection(job.nodes))


def jobs_by_node(current: Snapshot) -> Mapping[str, tuple[Job, ...]]:
    """The jobs on each node; nodes without jobs are not in it."""
    found = grouped((node, job) for job in current.jobs for node in job.nodes)
    return {node: tuple(jobs) for node, jobs in found.items()}


def format_jobs(jobs: Iterable[Job]) -> str:
    """Jobs with their users, such as `12 (ann), 14 (bob)`; after ten of them the number of the others."""
    return listed((f"{job.id} ({job.user})" for job in jobs), MOST_JOBS_NAMED)


def wait_until_empty(
    run: Run, nodes: tuple[str, ...], limit: float, pause: Callable[[float], None] = time.sleep
) -> None:
    """Wait until these nodes have no job, or exclude them after `limit` seconds (0: none); HostError if silent."""

    def busy_nodes(current: Snapshot) -> tuple[str, ...]:
        return tuple(name for name in nodes if name in current.by_name and not current.by_name[name].is_empty)

    busy, last = wait_while(run, busy_nodes, limit, pause)
    for name in busy:
        jobs = format_jobs(jobs_on(last, [name])) or "jobs that are completing"
        reason = f"jobs still run there after {limit / 60:.0f} min: {jobs}. The node stays drained; the jobs continue."
        run.exclude(name, HostError(name, reason))


def wait_while(
    run: Run,
    busy: Callable[[Snapshot], tuple[str, ...]],
    limit: float = 0,
    pause: Callable[[float], None] = time.sleep,
    on_snapshot: Callable[[Snapshot], None] = lambda _: None,
) -> tuple[tuple[str, ...], Snapshot]:
    """Poll Slurm until nothing is busy, or until the time limit.

    Args:
        busy: returns the names of the nodes, or partitions, that are still busy.
        limit: seconds; 0 for no limit.
        on_snapshot: called with each snapshot.

    Returns:
        The names that are still busy, and the last snapshot.

    Raises:
        HostError: the controller did not answer for `SILENCE_SECONDS`, or for `limit` where that is shorter.
    """
    begun = answered = time.monotonic()
    while True:
        try:
            now = nodes_and_jobs(run)
        except HostError:
            if time.monotonic() - answered > min(SILENCE_SECONDS, limit or SILENCE_SECONDS):
                raise
            run.claim.mark_lost()
        else:
            answered = time.monotonic()
            still_busy = busy(now)
            run.progress.begin("waiting for jobs", still_busy)
            on_snapshot(now)
            if not still_busy or (limit and answered - begun >= limit):
                return still_busy, now
        pause(POLL_SECONDS)
