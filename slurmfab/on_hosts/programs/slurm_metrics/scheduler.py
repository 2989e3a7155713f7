"""Figures of the scheduler and of shares: what sdiag and sshare print."""

from __future__ import annotations

import math
from typing import Dict, Iterable, List, Tuple

from slurmfab.on_hosts.programs.slurm_metrics.figures import MOST, Figures

MAIN, BACKFILL = "main", "backfill"
SECTIONS = (("Main schedule statistics", MAIN), ("Backfilling stats", BACKFILL))
"""How the sections of sdiag begin that have figures of a scheduler."""

MICROSECONDS = 1e6

CYCLES = (
    ("Last cycle", "slurm_scheduler_last_cycle_seconds"),
    ("Mean cycle", "slurm_scheduler_mean_cycle_seconds"),
    ("Max cycle", "slurm_scheduler_max_cycle_seconds"),
)
EVENTS = ("submitted", "started", "completed", "canceled", "failed")
OTHERS = (
    ("", "Server thread count", "slurm_slurmctld_threads"),
    ("", "Agent queue size", "slurm_slurmctld_agent_queue_length"),
    ("", "DBD Agent queue size", "slurm_slurmdbd_agent_queue_length"),
    (BACKFILL, "Total backfilled jobs (since last slurm start)", "slurm_backfilled_jobs_total"),
)


def collect(figures: Figures, shown: str) -> None:
    """Put the figures of the schedulers, from what sdiag printed; a scheduler without a cycle has no mean of one."""
    values = parse(shown)
    for section, name, figure in OTHERS:
        if (section, name) in values:
            figures.put(figure, values[(section, name)])
    for scheduler in (MAIN, BACKFILL):
        for name, figure in CYCLES:
            figures.put(figure, values.get((scheduler, name), 0) / MICROSECONDS, scheduler)
        figures.put("slurm_scheduler_queue_length", values.get((scheduler, "Last queue length"), 0), scheduler)
    for event in EVENTS:
        if ("", "Jobs " + event) in values:
            figures.put("slurm_job_events_total", values[("", "Jobs " + event)], event)


def parse(shown: str) -> Dict[Tuple[str, str], int]:
    """The numbers that sdiag printed, by section and name; the section is empty before the first one."""
    found: Dict[Tuple[str, str], int] = {}
    section = ""
    for line in shown.split("\n"):
        name, _, value = line.strip().rpartition(":")
        if value.strip().isdigit():
            found.setdefault((section, name.strip()), int(value))
        elif line.strip() and not line[0].isspace():
            # Numbers of further sections have names that those of a scheduler have, too.
            section = next((word for text, word in SECTIONS if line.startswith(text)), section and line)
    return found


def collect_shares(figures: Figures, rows: Iterable[List[str]]) -> None:
    """Put the shares of accounts, from what sshare printed: account, user, NormShares, EffectvUsage and LevelFS."""
    accounts = [row for row in rows if row[0].strip() and not row[1]]
    names = ("slurm_account_shares_ratio", "slurm_account_usage_ratio", "slurm_account_level_fairshare")
    for row in sorted(accounts)[:MOST]:
        for name, value in zip(names, values_of(row[2:])):  # noqa: B905 - zip(strict=) is Python 3.10's
            if not math.isnan(value):
                figures.put(name, value, row[0].strip())


def values_of(texts: List[str]) -> List[float]:
    """Numbers that sshare printed; none (NaN) for a field without one, as of root."""
    return [float(text) if is_number(text) else math.nan for text in texts]


def is_number(text: str) -> bool:
    """Whether a text is a number, or `inf`."""
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False
