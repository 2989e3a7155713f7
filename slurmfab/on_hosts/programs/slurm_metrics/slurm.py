"""Figures of Slurm: nodes and partitions, the queue, and the scheduler."""

from __future__ import annotations

import math
import re
from typing import Dict, FrozenSet, Iterable, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import gpus_of, number_of
from slurmfab.on_hosts.agent.nodes.states import NodeState, state_of
from slurmfab.on_hosts.programs.slurm_metrics.figures import MOST, OTHER, Figures, bounded, first, label

MEBIBYTE = 1 << 20

ALLOCATED, IDLE, UNAVAILABLE = "allocated", "idle", "unavailable"

NODE_STATES: Tuple[Tuple[str, FrozenSet[str]], ...] = (
    ("rebooting", frozenset({"REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT"})),
    ("down", frozenset({"DOWN", "FAIL", "FAILING", "ERROR", "INVAL", "INVALID_REG"})),
    ("drained", frozenset({"DRAIN", "DRAINED", "DRAINING"})),
    ("maintenance", frozenset({"MAINT", "MAINTENANCE"})),
    ("powered_down", frozenset({"POWERED_DOWN"})),
    ("powering_down", frozenset({"POWER_DOWN", "POWERING_DOWN"})),
    ("powering_up", frozenset({"POWER_UP", "POWERING_UP"})),
    ("not_responding", frozenset({"NOT_RESPONDING", "NO_RESPOND"})),
    ("completing", frozenset({"COMPLETING"})),
    ("mixed", frozenset({"MIXED"})),
    ("allocated", frozenset({"ALLOCATED"})),
    ("reserved", frozenset({"RESERVED", "RES"})),
    ("planned", frozenset({"PLANNED"})),
    ("idle", frozenset({"IDLE"})),
)
"""The word for a node: the first whose flags it has. A drained node with jobs is `draining`."""

DRAINING = "draining"
BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
WORDS = (*(word for word, _ in NODE_STATES), DRAINING, OTHER)  # all words: each has a value, also 0


def word_of(state: NodeState) -> str:
    """The one word that stands for the state of a node."""
    found = next((word for word, flags in NODE_STATES if flags & state.flags), OTHER)
    return DRAINING if found == "drained" and state.flags & BUSY else found


def collect_nodes(figures: Figures, records: Iterable[Mapping[str, str]]) -> None:
    """Put the figures of nodes. `records`: the fields of `scontrol show node` of each node."""
    states: Dict[Tuple[str, ...], float] = {(word,): 0.0 for word in WORDS}
    reasons: Dict[Tuple[str, ...], float] = {}
    away: Dict[Tuple[str, ...], float] = {}
    amounts: List[Tuple[Tuple[str, ...], Dict[Tuple[str, ...], float]]] = []
    for record in records:
        state = state_of(dict(record))
        word = word_of(state)
        states[(word,)] += 1
        if not state.is_in_service:
            reason = (word, label(state.reason) or "none")
            reasons[reason] = reasons.get(reason, 0) + 1
            away[(record["NodeName"], word)] = 1
        partitions = tuple(
            one for one in record.get("Partitions", "").split(",") if one not in ("", commands.PARTITION)
        )
        amounts.append((partitions, amounts_of(record, state)))
    figures.put_all("slurm_nodes", states)
    figures.put_all("slurm_nodes_out_of_service", bounded(reasons))
    figures.put_all("slurm_node_out_of_service", dict(sorted(away.items())[:MOST]))
    add_up(figures, amounts)


def amounts_of(record: Mapping[str, str], state: NodeState) -> Dict[Tuple[str, ...], float]:
    """Amounts by kind (`cpus`, `memory_bytes`, `gpus`), GPU type and state; free ones may be unavailable."""
    free = IDLE if state.is_in_service else UNAVAILABLE
    used, total = gpus_of(record.get("GresUsed", "")), gpus_of(record.get("Gres", ""))
    cpus = integer(record.get("CPUEfctv", "")) or integer(record.get("CPUTot", ""))
    memory = integer(record.get("RealMemory", "")) * MEBIBYTE
    found: Dict[Tuple[str, ...], Tuple[int, int]] = {
        ("cpus",): (integer(record.get("CPUAlloc", "")), cpus),
        ("memory_bytes",): (integer(record.get("AllocMem", "")) * MEBIBYTE, memory),
        **{("gpus", label(kind)): (used.get(kind, 0), count) for kind, count in total.items()},
    }
    amounts: Dict[Tuple[str, ...], float] = {}
    for what, (taken, there) in found.items():
        states = {ALLOCATED: taken, IDLE: 0, UNAVAILABLE: 0, free: max(0, there - taken)}
        amounts.update({(*what, one): amount for one, amount in states.items()})
    return amounts


def add_up(figures: Figures, amounts: Iterable[Tuple[Tuple[str, ...], Mapping[Tuple[str, ...], float]]]) -> None:
    """Put the sums of what nodes have, of each partition and of the cluster."""
    nodes = list(amounts)
    known = frozenset(first(one for partitions, _ in nodes for one in partitions))
    sums: Dict[Tuple[str, Tuple[str, ...]], float] = {}
    for partitions, has in nodes:
        for (what, *rest), amount in has.items():
            keys = [("slurm_cluster_" + what, tuple(rest))]
            keys += [("slurm_" + what, (one, *rest)) for one in partitions if one in known]
            for key in keys:
                sums[key] = sums.get(key, 0) + amount
    for (name, labels), amount in sums.items():
        figures.put(name, amount, *labels)


def collect_partitions(figures: Figures, shown: str) -> None:
    """Put which partitions are up, from what `PARTITION_STATES` printed."""
    rows = dict(line.split("|", 1) for line in shown.split("\n") if "|" in line)
    for name in first(one for one in rows if one != commands.PARTITION):
        figures.put("slurm_partition_up", rows[name] == "up", name)


def integer(text: str) -> int:
    """A number that Slurm printed; 0 for anything else."""
    return number_of(text) or 0


FIELDS = ("JobArrayID", "State", "Partition", "Reason", "EligibleTime")
"""What squeue is asked about each job; none of it is a text of its user."""

QUEUE_STATES = ("pending", "configuring", "running", "suspended", "completing")
"""The states that are told apart; all others are `OTHER`."""

QUANTILES = (0.5, 0.9, 1.0)


def queue_table() -> commands.Table:
    """The question to squeue."""
    return commands.jobs(FIELDS)


def collect_queue(figures: Figures, rows: Iterable[Sequence[str]], now: float) -> None:
    """Put the figures of jobs."""
    states: Dict[Tuple[str, ...], float] = {(state,): 0.0 for state in (*QUEUE_STATES, OTHER)}
    places: Dict[Tuple[str, ...], float] = {}
    reasons: Dict[Tuple[str, ...], float] = {}
    waits: List[Tuple[float, int]] = []
    for job, shown, partitions, reason, eligible in rows:
        state, count = shown.lower() if shown.lower() in QUEUE_STATES else OTHER, tasks(job)
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


def collect_scheduler(figures: Figures, shown: str) -> None:
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
        amount = number_of(value.strip())
        if amount is not None:
            found.setdefault((section, name.strip()), amount)
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
