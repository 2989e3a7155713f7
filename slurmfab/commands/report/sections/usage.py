"""What jobs used lately: hours over time, by account and by user, waiting times, and GPUs that were held idle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurmfab.base.markup import Markup, fill
from slurmfab.base.program_name import FAB
from slurmfab.commands.report.charts import DAY, HOUR, Plot, amount, columns, duration, is_by_hours
from slurmfab.commands.report.section import Missing, Section, Sources, Tone
from slurmfab.commands.usage.asking import IdleGpus, Sums, Usage, Wait

ID, TITLE = "usage", "Use over time"

MOST_ACCOUNTS, MOST_USERS, MOST_JOBS = 15, 25, 10  # so many accounts, users and jobs are shown


@dataclass(frozen=True)
class Resource:
    """CPUs or GPUs."""

    unit: str
    chart: Plot
    share: str  # how much of what the cluster has was used, in words; empty where that is not known


@dataclass(frozen=True)
class Row:
    """An account or user."""

    name: str
    jobs: int
    cpu: str
    gpu: str
    percent: float  # width of the bar: its part of the largest amount of GPU hours, or of CPU hours without GPUs
    cpu_efficiency: str  # the part of its CPU time that was used, in words; empty where Slurm does not know it
    memory_efficiency: str
    wait: str  # how long a job waited on average, and at most


def section(sources: Sources) -> Section | None:
    """What jobs used; none where Slurm keeps no records."""
    usage = sources.usage
    if isinstance(usage, Missing):
        return Section(ID, TITLE, Markup(""), note=usage.reason) if usage.reason else None
    total = usage.total
    note = f"{usage.since_text} to {usage.until_text}: {total.jobs} jobs. More: {FAB} usage."
    content = fill(
        "usage.html.j2",
        resources=resources(usage),
        tables={"Accounts": rows(usage, "account", MOST_ACCOUNTS), "Users": rows(usage, "user", MOST_USERS)},
        has_gpus=usage.tracks_gpus,
        waits=waits(usage),
        idle=idle(usage),
    )
    badge, tone = badge_of(usage)
    return Section(ID, TITLE, content, note=note, badge=badge, tone=tone)


def badge_of(usage: Usage) -> tuple[str, Tone]:
    """How many jobs held GPUs idle, or how much of the cluster was used."""
    if usage.idle:
        return f"{len(usage.idle)} idle on GPUs", "watch"
    share = usage.gpu_share(usage.total) if usage.tracks_gpus else usage.cpu_share(usage.total)
    return (percent(share), "plain") if share is not None else ("", "plain")


def percent(part: float | None) -> str:
    """A part in percent; empty where it is not known."""
    return "" if part is None else f"{100 * part:.0f} %"


def resources(usage: Usage) -> tuple[Resource, ...]:
    """The hours of GPUs, if Slurm counts them, and of CPUs over time."""
    cpus = [(point.time, point.cpu_seconds / HOUR) for point in usage.points]
    gpus = [(point.time, point.gpu_seconds / HOUR) for point in usage.points]
    found = [resource(usage, "CPU hours", cpus, "cpu", usage.cpu_share)]
    if usage.tracks_gpus and usage.capacity.get("gres/gpu"):
        found.insert(0, resource(usage, "GPU hours", gpus, "gres/gpu", usage.gpu_share))
    return tuple(found)


def resource(
    usage: Usage, unit: str, hours: list[tuple[int, float]], tres: str, share: Callable[[Sums], float | None]
) -> Resource:
    """The chart of CPUs or GPUs. `tres`: Slurm's name of the resource. `share`: the part of all that some jobs used."""
    length = HOUR if is_by_hours([at for at, _ in hours], usage.until) else DAY
    window = max(1, usage.until - usage.since)
    capacity = usage.capacity.get(tres, 0) * length / window / HOUR
    used = share(usage.total)
    words = "" if used is None else f"{percent(used)} of what the cluster has"
    return Resource(unit, columns(hours, unit, capacity or None, usage.until), words)


def rows(usage: Usage, key: str, most: int) -> tuple[Row, ...]:
    """The accounts or users that used most. `key`: `account` or `user`."""
    found = usage.by((key,))
    by_gpus = any(row.sums.gpu_seconds for row in found)
    top = max((weight(row.sums, by_gpus=by_gpus) for row in found), default=0) or 1
    return tuple(row_of(row.key[0], row.sums, weight(row.sums, by_gpus=by_gpus) / top) for row in found[:most])


def weight(sums: Sums, *, by_gpus: bool) -> int:
    """What the bars compare: GPU seconds where there are any, otherwise CPU seconds."""
    return sums.gpu_seconds if by_gpus else sums.cpu_seconds


def row_of(name: str, sums: Sums, part: float) -> Row:
    """The row of an account or user. `part`: of the largest amount, from 0 to 1."""
    wait = f"{duration(sums.mean_wait)}, at most {duration(sums.longest_wait)}" if sums.mean_wait is not None else ""
    return Row(
        name=name,
        jobs=sums.jobs,
        cpu=amount(sums.cpu_seconds / HOUR),
        gpu=amount(sums.gpu_seconds / HOUR),
        percent=round(100 * part, 1),
        cpu_efficiency=percent(sums.cpu_efficiency),
        memory_efficiency=percent(sums.memory_efficiency),
        wait=wait,
    )


def waits(usage: Usage) -> list[tuple[Wait, str]]:
    """The jobs that waited longest, each with how long."""
    shown = usage.waits[:MOST_JOBS]
    return [(one, f"{duration(one.seconds)}{'' if one.started else ', still waiting'}") for one in shown]


def idle(usage: Usage) -> list[tuple[IdleGpus, str]]:
    """The jobs that held GPUs idle, most GPU hours first, each with how many hours."""
    return [(one, held(one)) for one in usage.idle[:MOST_JOBS]]


def held(one: IdleGpus) -> str:
    """How long a job held how many GPUs idle."""
    hours = f"{amount(one.gpu_seconds / HOUR)} GPU hours on {one.gpus} GPUs{', running' if one.running else ''}"
    return hours if one.is_certain else f"{hours}; it had hardly any CPU time"
