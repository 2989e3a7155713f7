"""Figures of the queue: jobs by state, partition and reason, and how long they have waited."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.programs.slurm_metrics.figures import OTHER, Figures, bounded, first, label

FIELDS = ("JobArrayID", "State", "Partition", "Reason", "EligibleTime")
"""What squeue is asked about each job; none of it is a text of its user."""

STATES = ("pending", "configuring", "running", "suspended", "completing")
"""The states that are told apart; all others are `OTHER`."""

QUANTILES = (0.5, 0.9, 1.0)


def table() -> commands.Table:
    """The question to squeue."""
    return commands.jobs(FIELDS)


def collect(figures: Figures, rows: Iterable[Sequence[str]], now: float) -> None:
    """Put the figures of jobs."""
    states: Dict[Tuple[str, ...], float] = {(state,): 0.0 for state in (*STATES, OTHER)}
    places: Dict[Tuple[str, ...], float] = {}
    reasons: Dict[Tuple[str, ...], float] = {}
    waits: List[Tuple[float, int]] = []
    for job, shown, partitions, reason, eligible in rows:
        state, count = shown.lower() if shown.lower() in STATES else OTHER, tasks(job)
        states[(state,)] += count
        for one in partitions.split(","):
            places[(one, state)] = places.get((one, state), 0) + count
        if state == "pending":
            why = (label(reason) or "None",)
            reasons[why] = reasons.get(why, 0) + count
            since = commands.moment(eligible)
            if since is not None and since <= now:
                waits.append((now - since, count))
    figures.put_all("slurm_jobs", states)
    known = set(first(place for place, _ in places if place != commands.PARTITION))
    figures.put_all("slurm_partition_jobs", {key: count for key, count in places.items() if key[0] in known})
    figures.put_all("slurm_jobs_pending", bounded(reasons) or {("None",): 0})
    figures.put("slurm_jobs_pending_oldest_seconds", max((wait for wait, _ in waits), default=0))
    for part in QUANTILES:
        figures.put("slurm_jobs_pending_wait_seconds", quantile(waits, part), "%g" % part)


def tasks(job: str) -> int:
    """How many tasks an ID stands for.

    >>> tasks("12"), tasks("12_3"), tasks("12_[1-3,7%2]"), tasks("12_[0-9:3]")
    (1, 1, 4, 4)
    """
    found = re.search(r"\[([\d,:-]+)(?:%\d+)?\]$", job, re.ASCII)
    if not found:
        return 1
    count = 0
    for part in found[1].split(","):
        bounds = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part, re.ASCII)
        if bounds:
            low, high = int(bounds[1]), int(bounds[2] or bounds[1])
            count += max(0, high - low) // max(1, int(bounds[3] or 1)) + 1
    return max(1, count)


def quantile(waits: Iterable[Tuple[float, int]], part: float) -> float:
    """The wait that this part of the jobs do not exceed; 0 without jobs.

    >>> quantile([(10, 1), (20, 8), (30, 1)], 0.5)
    20

    Args:
        waits: seconds, and how many jobs have waited for that long.
        part: of all jobs, from 0 to 1.
    """
    ordered = sorted(waits)
    wanted, passed = part * sum(count for _, count in ordered), 0
    for wait, count in ordered:
        passed += count
        if passed >= wanted:
            return wait
    return ordered[-1][0] if ordered else 0
