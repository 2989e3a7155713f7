"""The state of a cluster as one screen of text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from slurmfab.hostlist import fold
from slurmfab.status import cluster_state, limits
from slurmfab.status.cluster_state import count_pending, count_running

if TYPE_CHECKING:
    from slurmfab.status.cluster_state import StateGroup, Status, Usage
    from slurmfab.status.snapshot import Job, Partition

BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"

NO_LIMITS = "No limits are known: this cluster has no accounting database that could hold any."
MOST_JOBS = 50
"""How many of a user's jobs are listed; --json has them all."""


class Paint:
    """Colours, where the output is a terminal and NO_COLOR is not set.

    Args:
        out: where the text goes.
    """

    def __init__(self, out: TextIO) -> None:
        self.is_on = out.isatty() and not os.environ.get("NO_COLOR")

    def __call__(self, text: str, colour: str) -> str:
        """The text in a colour."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.is_on and text else text


def write(status: Status, user: str, out: TextIO) -> None:
    """Write everything, the worst first.

    Args:
        status: how the cluster is.
        user: whose jobs to list, empty for nobody's.
        out: where to.
    """
    paint = Paint(out)
    lines = [*(paint(line, RED) for line in status.trouble().splitlines()), *headline(status, paint)]
    if status.seen.nodes:
        lines += ["", *nodes(status, paint), "", *partitions(status, paint), "", *users(status, paint)]
    if user and status.seen.is_up:
        lines += ["", *user_jobs(status, user, paint)]
    out.write("\n".join(lines) + "\n")


def headline(status: Status, paint: Paint) -> list[str]:
    """Cluster and controllers, and what is in use."""
    seen = status.seen
    version = f" (Slurm {status.version})" if status.version else ""
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


def used(usage: Usage) -> str:
    """Such as `18/24, 4 free, 2 on nodes out of service`."""
    out = f", {usage.unavailable} on nodes out of service" if usage.unavailable else ""
    return f"{usage.used}/{usage.total}, {usage.free} free{out}"


def nodes(status: Status, paint: Paint) -> list[str]:
    """The table of nodes by state."""
    rows = [(str(len(group.nodes)), group.state, fold(group.nodes), why(group)) for group in status.groups]
    colours = [state_colour(group) for group in status.groups]
    return table(("NODES", "STATE", "NAMES", "REASON"), rows, paint, colours)


def state_colour(group: StateGroup) -> str:
    """The colour of a group's line: nothing is wrong, somebody meant it so, or it is broken."""
    if not group.reason and "not responding" not in group.state and "down" not in group.state.split(", "):
        return ""
    return YELLOW if "drain" in group.state and "not responding" not in group.state else RED


def why(group: StateGroup) -> str:
    """A group's reason, with who gave it and when."""
    if not group.reason:
        return ""
    by = f"{group.by} by slurmfab" if group.by_slurmfab else group.by
    who = ", ".join(filter(None, (by, group.since[:16].replace("T", " "))))
    return f"{group.reason} ({who})" if who else group.reason


def partitions(status: Status, paint: Paint) -> list[str]:
    """The table of partitions."""
    rows = [partition_row(status, partition) for partition in status.seen.partitions]
    return table(("PARTITION", "STATE", "NODES", "CPUS", "GPUS", "RUNNING", "PENDING", "MAX TIME"), rows, paint)


def partition_row(status: Status, partition: Partition) -> tuple[str, ...]:
    """One partition's line, with the default one marked as sinfo marks it."""
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
        return ["Nobody has a job."]
    rows = [(one.name, str(one.running), str(one.pending), str(one.cpus), str(one.gpus)) for one in counts]
    return table(("USER", "RUNNING", "PENDING", "CPUS", "GPUS"), rows, paint)


def user_jobs(status: Status, user: str, paint: Paint) -> list[str]:
    """What one user has, and may have."""
    jobs = [job for job in status.seen.jobs if job.user == user]
    lines = [paint(f"Job details for user {user}:", BOLD), *user_limits(status, user, paint)]
    if not jobs:
        return [*lines, f"{user} has no jobs."]
    header = ("JOBID", "PARTITION", "NAME", "STATE", "CPUS", "GPUS", "CPU TIME", "NODES OR REASON")
    lines += table(header, [job_row(job) for job in jobs[:MOST_JOBS]], paint)
    return lines if len(jobs) <= MOST_JOBS else [*lines, f"… and {len(jobs) - MOST_JOBS} more; --json has them all."]


def user_limits(status: Status, user: str, paint: Paint) -> list[str]:
    """What one user may use, or why nobody knows."""
    if not status.has_database:
        return [NO_LIMITS]
    if status.seen.limits is None:
        return [paint("What limits there are is unknown: slurmdbd does not answer.", YELLOW)]
    if not status.seen.limits.associations:
        return [f"{user} has no account."]
    return [*table(("LIMITS OF", "NAME", "QOS", "LIMITS"), limits.table_rows(status.seen.limits), paint), ""]


def job_row(job: Job) -> tuple[str, ...]:
    """One job's line."""
    name = "".join(character if character.isprintable() else "?" for character in job.name)
    return (
        job.id,
        ",".join(job.partitions),
        name,
        job.state,
        str(job.cpus),
        str(job.gpus or "-"),
        duration(job.seconds * job.cpus),
        job.reason if job.is_pending else job.node_list,
    )


def duration(seconds: int) -> str:
    """A time as Slurm writes it: `2-01:27:11`."""
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def table(header: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint, colours: Sequence[str] = ()) -> list[str]:
    """Columns as wide as they have to be; a terminal may wrap the last, and nothing is cut off for a pipe.

    Args:
        header: the columns' names.
        rows: as many values each.
        paint: colours.
        colours: one for each row; none when left out.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()

    painted = [
        paint(line(row), colours[number]) if colours and colours[number] else line(row)
        for number, row in enumerate(rows)
    ]
    return [paint(line(header), BOLD), *painted]
