"""The state of a cluster as one screen of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from slurmfab.base import terminal
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import BOLD, GREEN, RED, YELLOW, Cell, Paint, table
from slurmfab.core.status import cluster_state, limits
from slurmfab.core.status.cluster_state import count_pending, count_running
from slurmfab.on_hosts.agent.client.amounts import clock
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.nodes.lost_jobs import clock as time_of

if TYPE_CHECKING:
    from slurmfab.core.status.cluster_state import StateGroup, Status, Usage
    from slurmfab.core.status.snapshot import Job, Partition

NO_LIMITS = "No limits are known: this cluster has no accounting database."
MOST_LOST = 10  # how many lost jobs are named
MOST_JOBS = 50  # how many of a user's jobs are listed; --json has all of them


def write(status: Status, user: str, out: TextIO) -> None:
    """Write the whole text, errors first, with the jobs of `user`, if any."""
    paint = Paint(out)
    lines = [*(paint(line, RED) for line in status.trouble().splitlines()), *headline(status, paint)]
    lines += [paint(line, RED) for line in (*lost_jobs(status), *ended_jobs(status))]
    if status.seen.nodes:
        lines += ["", *nodes(status, paint), "", *partitions(status, paint), "", *users(status, paint)]
    if user and status.seen.is_up:
        lines += ["", *user_jobs(status, user, paint)]
    terminal.write("\n".join(lines), out)


def headline(status: Status, paint: Paint) -> list[str]:
    """The lines about the cluster, its controllers, and how much of it is in use."""
    seen = status.seen
    older = status.older_nodes
    others = "".join(f"; {fold(names)}: {version}" for version, names in older.items())
    version = f" (Slurm {status.slurm}{others})" if status.slurm else ""
    up = [f"{one.host} {paint('up', GREEN) if one.is_up else paint('DOWN', RED)}" for one in seen.controllers]
    lines = [paint(f"{status.cluster}{version}", BOLD) + (f", slurmctld: {', '.join(up)}" if up else "")]
    if not seen.nodes:
        return lines
    free = [node.name for node in seen.nodes if node.is_free]
    gpus = cluster_state.gpus(seen.nodes)
    lines += [f"GPU usage:  {used(gpus)}"] if gpus.total else []
    lines += [
        f"CPU usage:  {used(cluster_state.cpus(seen.nodes))}",
        f"Free nodes: {len(free)}/{len(seen.nodes)}{': ' + fold(free) if free else ''}",
        f"Jobs:       {count_running(seen.jobs)} running, {count_pending(seen.jobs)} pending",
    ]
    return lines


def lost_jobs(status: Status) -> list[str]:
    """The lines about jobs that a crash has lost."""
    lost, records = status.seen.lost, status.seen.open_records
    lines = [f"Not running: {one.text}." for one in lost[:MOST_LOST]]
    lines += [f"… and {len(lost) - MOST_LOST} more like these."] if len(lost) > MOST_LOST else []
    lines += [f"To put what is not running back into the queue: {FAB} deploy"] if lost else []
    if records:
        users = ", ".join(sorted({one.user for one in records}))
        names = listed([one.id for one in records], MOST_LOST)
        jobs = f"job {names}" if len(records) == 1 else f"{len(records)} jobs ({names})"
        lines.append(
            f"Lost by a crash: {jobs} of {users}: slurmctld does not know them, and slurmdbd waits for their end. "
            f"Tell their users to submit them again, then: {FAB} close-runaways"
        )
    return lines


def ended_jobs(status: Status) -> list[str]:
    """The lines about jobs that have ended and still hold nodes."""
    over = status.seen.ended
    lines = [
        f"Ended, and still on its nodes: job {one.id} of {one.user} ended at {time_of(one.ended)} and holds "
        f"{one.nodes}. What it waits for: {FAB} explain {one.id}"
        for one in over[:MOST_LOST]
    ]
    return lines + ([f"… and {len(over) - MOST_LOST} more like these."] if len(over) > MOST_LOST else [])


def used(usage: Usage) -> str:
    """How much is used, as in `18/24, 4 free, 2 on nodes out of service`."""
    out = f", {usage.unavailable} on nodes out of service" if usage.unavailable else ""
    return f"{usage.used}/{usage.total}, {usage.free} free{out}"


def nodes(status: Status, paint: Paint) -> list[str]:
    """The table of nodes by state."""
    rows = [(str(len(group.nodes)), group.state, fold(group.nodes), reason_text(group)) for group in status.groups]
    colours = [state_colour(group) for group in status.groups]
    return colour_table(("NODES", "STATE", "NAMES", "REASON"), rows, paint, colours)


def state_colour(group: StateGroup) -> str:
    """The colour of a group's line: none for nodes in service, yellow for drained ones, red for broken ones."""
    if not group.reason and "not responding" not in group.state and "down" not in group.state.split(", "):
        return ""
    return YELLOW if "drain" in group.state and "not responding" not in group.state else RED


def reason_text(group: StateGroup) -> str:
    """A group's reason, with its author and time; empty without a reason."""
    if not group.reason:
        return ""
    by = f"{group.by} by slurmfab" if group.by_slurmfab else group.by
    who = ", ".join(filter(None, (by, group.since[:16].replace("T", " "))))
    return f"{group.reason} ({who})" if who else group.reason


def partitions(status: Status, paint: Paint) -> list[str]:
    """The table of partitions."""
    rows = [partition_row(status, partition) for partition in status.seen.partitions]
    return colour_table(("PARTITION", "STATE", "NODES", "CPUS", "GPUS", "RUNNING", "PENDING", "MAX TIME"), rows, paint)


def partition_row(status: Status, partition: Partition) -> tuple[str, ...]:
    """One partition's cells; the default partition has a * behind its name, as in sinfo."""
    there = status.nodes_of(partition.name)
    cpus, gpus = cluster_state.cpus(there), cluster_state.gpus(there)
    count = status.by_partition.get(partition.name)
    return (
        partition.name + "*" * partition.is_default,
        partition.state.lower(),
        str(len(there)),
        f"{cpus.used}/{cpus.total}",
        f"{gpus.used}/{gpus.total}" if gpus.total else "-",
        str(count.running if count else 0),
        str(count.pending if count else 0),
        partition.max_time,
    )


def users(status: Status, paint: Paint) -> list[str]:
    """The table of users with jobs."""
    counts = cluster_state.by_user(status.seen.jobs)
    if not counts:
        return ["No user has a job."]
    rows = [(one.name, str(one.running), str(one.pending), str(one.cpus), str(one.gpus)) for one in counts]
    return colour_table(("USER", "RUNNING", "PENDING", "CPUS", "GPUS"), rows, paint)


def user_jobs(status: Status, user: str, paint: Paint) -> list[str]:
    """The lines about one user's jobs and limits."""
    jobs = [job for job in status.seen.jobs if job.user == user]
    lines = [paint(f"Job details for user {user}:", BOLD), *user_limits(status, user, paint)]
    if not jobs:
        return [*lines, f"{user} has no jobs."]
    header = ("JOBID", "PARTITION", "NAME", "STATE", "CPUS", "GPUS", "CPU TIME", "NODES OR REASON")
    lines += colour_table(header, [job_row(job) for job in jobs[:MOST_JOBS]], paint)
    return lines if len(jobs) <= MOST_JOBS else [*lines, f"… and {len(jobs) - MOST_JOBS} more; --json has them all."]


def user_limits(status: Status, user: str, paint: Paint) -> list[str]:
    """One user's limits, or why they are unknown."""
    if not status.has_database:
        return [NO_LIMITS]
    if status.seen.limits is None:
        return [paint("The limits are unknown: slurmdbd does not answer.", YELLOW)]
    if not status.seen.limits.associations:
        return [f"{user} has no account."]
    table = colour_table(("LIMITS OF", "NAME", "QOS", "LIMITS"), limits.table_rows(status.seen.limits), paint)
    used = [paint(one.text, YELLOW if one.is_used_up else "") for one in status.seen.limits.used]
    return [*table, *([""] if used else []), *used, ""]


def job_row(job: Job) -> tuple[str, ...]:
    """One job's cells."""
    name = "".join(character if character.isprintable() else "?" for character in job.name)
    return (
        job.id,
        ",".join(job.partitions),
        name,
        job.state,
        str(job.cpus),
        str(job.gpus or "-"),
        clock(job.cpu_seconds),
        job.reason if job.is_pending else job.node_list,
    )


def colour_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint, colours: Sequence[str] = ()
) -> list[str]:
    """The lines of a table with bold header, at most as wide as the screen; `colours` has one for each row."""
    coloured = [
        [Cell(text, colour) for text in row] for row, colour in zip(rows, colours or [""] * len(rows), strict=True)
    ]
    return table([[Cell(text, BOLD) for text in header], *coloured], paint.width, paint)
