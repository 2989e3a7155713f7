"""Jobs that run by a restored state and have ended since it was saved: Slurm holds their nodes, and runs them again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.core.engine.job_waiting import nodes_and_jobs
from slurmfab.core.engine.run import Run
from slurmfab.core.status.snapshot import Job
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.listing import listed

MOST_JOBS_NAMED = 20  # a message names this many jobs, and counts the others


def steps_on(run: Run, nodes: Iterable[str]) -> dict[str, Sequence[str]]:
    """The job steps that have processes, as `JOB.STEP`, by node; nodes that do not answer are not in it."""

    def ask(node: str) -> Any:
        return answer_value(node, run.transport.call(node, {"op": "job-processes"}), "job_processes")["steps"]

    answers = dict(on_each(tuple(nodes), ask))
    return {node: found for node, found in answers.items() if not isinstance(found, SlurmfabError)}


def numbers(steps: Iterable[str]) -> set[int]:
    """The job IDs of steps."""
    return {int(step.partition(".")[0]) for step in steps}


def ended(jobs: Iterable[Job], steps: Mapping[str, Sequence[str]], longer_than: float) -> dict[int, tuple[str, ...]]:
    """The nodes of each job that has run for so many seconds, but has no process on any of them; by job ID.

    `steps`: as `steps_on` returns them; a job with a node that is not in it is left out.
    """
    there = {node: numbers(found) for node, found in steps.items()}
    return {
        int(job.number): job.nodes
        for job in jobs
        if job.state == "RUNNING" and job.seconds > longer_than
        and all(node in there and int(job.number) not in there[node] for node in job.nodes)
    }  # fmt: skip


def tell(run: Run) -> None:
    """Name the jobs that slurmctld takes for running by the state of before this run, and that have ended."""
    running = [job for job in nodes_and_jobs(run).jobs if job.state == "RUNNING"]
    # Jobs that have begun since slurmctld started may have no process yet.
    longer_than = time.time() - run.started.timestamp()
    # Slurm may know nodes that the cluster file has not, such as future ones.
    theirs = dict.fromkeys(node for job in running for node in job.nodes)
    steps = steps_on(run, run.remaining(node for node in theirs if node in run.inventory.cluster.compute_nodes))
    if found := ended(running, steps, longer_than):
        listed = ",".join(str(number) for number in [*found][:MOST_JOBS_NAMED])
        run.progress.line(
            f"No longer at work: {format_jobs(found)}. Slurm holds their nodes until it finds that out, after up to "
            "half an hour, and then starts these jobs again. Repair: scontrol requeuehold "
            f"{listed} gives the nodes back and keeps the jobs, and scontrol release starts them again; scancel "
            f"{listed} ends them."
        )


def format_jobs(found: Mapping[int, Sequence[str]]) -> str:
    """Jobs with their nodes, such as `job 17 on n[1-2]`; after 20 of them the number of the others."""
    return listed((f"job {number} on {fold(nodes)}" for number, nodes in found.items()), MOST_JOBS_NAMED)
