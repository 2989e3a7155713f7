"""The figures that Prometheus gets, as docs/monitoring.md has them, and their text in its format."""

from __future__ import annotations

import math
from typing import Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

GAUGE, COUNTER = "gauge", "counter"

LONGEST_LABEL = 100  # characters of a label's value: reasons of nodes are texts of people
MOST = 200  # the most values of a label that names something of the site, such as an account; the rest is left out
MOST_REASONS = 30  # the most reasons that are told apart; the rest counts as `OTHER`

OTHER = "other"


class Figure(NamedTuple):
    """One kind of figure."""

    name: str
    labels: Tuple[str, ...]  # names of its labels
    help: str
    kind: str = GAUGE  # `gauge` or `counter`


_EVENTS = (
    "Jobs submitted, started, completed, canceled and failed since slurmctld last counted from zero (at midnight)."
)

TABLE = (
    Figure("slurm_up", (), "1 on the controller at work; 0 on others, and where no slurmctld answers."),
    Figure("slurm_slurmctld_up", ("controller", "role"), "Whether each slurmctld answers a ping."),
    Figure("slurm_nodes", ("state",), "Nodes by state, each counted once."),
    Figure("slurm_nodes_out_of_service", ("state", "reason"), "Nodes that get no jobs, by state and reason."),
    Figure("slurm_node_out_of_service", ("node", "state"), "1 for each node that gets no jobs."),
    Figure("slurm_cpus", ("partition", "state"), "CPUs of a partition: allocated, idle, or unavailable."),
    Figure("slurm_memory_bytes", ("partition", "state"), "Memory of a partition (RealMemory) likewise."),
    Figure("slurm_gpus", ("partition", "type", "state"), "GPUs of a partition by type, likewise."),
    Figure("slurm_cluster_cpus", ("state",), "CPUs of all nodes, each node counted once."),
    Figure("slurm_cluster_memory_bytes", ("state",), "Memory of all nodes likewise."),
    Figure("slurm_cluster_gpus", ("type", "state"), "GPUs of all nodes by type, likewise."),
    Figure("slurm_partition_up", ("partition",), "Whether a partition starts jobs (State=UP)."),
    Figure("slurm_jobs", ("state",), "Jobs by state; each task of an array is one."),
    Figure("slurm_partition_jobs", ("partition", "state"), "The same in each partition that a job asks for."),
    Figure("slurm_jobs_pending", ("reason",), "Pending jobs by the reason why they wait."),
    Figure("slurm_jobs_pending_oldest_seconds", (), "How long the longest waiting job that could start has waited."),
    Figure("slurm_jobs_pending_wait_seconds", ("quantile",), "How long jobs that could start have waited: quantiles."),
    Figure("slurm_account_shares_ratio", ("account",), "The share that an account is promised, of all (NormShares)."),
    Figure("slurm_account_usage_ratio", ("account",), "The share of what was used that it had (EffectvUsage)."),
    Figure("slurm_account_level_fairshare", ("account",), "The first over the second among its siblings (LevelFS)."),
    Figure("slurm_scheduler_last_cycle_seconds", ("scheduler",), "Time of the last cycle: main or backfill."),
    Figure("slurm_scheduler_mean_cycle_seconds", ("scheduler",), "Mean time of a cycle."),
    Figure("slurm_scheduler_max_cycle_seconds", ("scheduler",), "Longest time of a cycle."),
    Figure("slurm_scheduler_queue_length", ("scheduler",), "Jobs in the queue at the last cycle."),
    Figure("slurm_backfilled_jobs_total", (), "Jobs that backfill has started since slurmctld's start.", COUNTER),
    Figure("slurm_job_events_total", ("event",), _EVENTS, COUNTER),
    Figure("slurm_slurmctld_threads", (), "Threads of slurmctld that serve requests."),
    Figure("slurm_slurmctld_agent_queue_length", (), "Messages of slurmctld to nodes that wait."),
    Figure("slurm_slurmdbd_agent_queue_length", (), "Messages of slurmctld to slurmdbd that wait."),
    Figure("slurmfab_backup_last_timestamp_seconds", (), "When the newest scheduled backup on this host was made."),
    Figure("slurmfab_backup_last_bytes", (), "Its size."),
    Figure("slurmfab_gpu_check_last_timestamp_seconds", (), "When the last GPU check ended."),
    Figure("slurmfab_gpu_check_nodes", ("outcome",), "What it found: passed, falls_short, not_measured."),
    Figure("slurmfab_drift_last_run_timestamp_seconds", (), "When hosts were last compared with the cluster file."),
    Figure("slurmfab_drift_hosts", ("state",), "What that found: hosts in_sync, differing, and unreachable."),
    Figure("slurmfab_drift_resources", ("kind",), "What differs on hosts, by kind of difference."),
    Figure("slurmfab_metrics_timestamp_seconds", (), "When these figures were collected."),
    Figure("slurmfab_metrics_duration_seconds", (), "How long that took."),
)
"""All figures, in the order of the file."""

NAMED = {figure.name: figure for figure in TABLE}


class Figures:
    """Values of figures, which become one file."""

    def __init__(self) -> None:
        self.values: Dict[str, Dict[Tuple[str, ...], float]] = {}

    def put(self, name: str, value: float, *labels: str) -> None:
        """Set a value, labels in the table's order; KeyError for another figure, ValueError for other labels."""
        if len(labels) != len(NAMED[name].labels):
            raise ValueError("%s has the labels %s" % (name, NAMED[name].labels))
        self.values.setdefault(name, {})[labels] = float(value)

    def put_all(self, name: str, values: Mapping[Tuple[str, ...], float]) -> None:
        """Set the values of one figure by their labels."""
        for labels, value in values.items():
            self.put(name, value, *labels)

    def text(self) -> str:
        """The file: a type and a help for each figure that has values (Prometheus, Text-based format)."""
        lines: List[str] = []
        for figure in TABLE:
            values = self.values.get(figure.name)
            if values:
                lines.append("# HELP %s %s" % (figure.name, figure.help))
                lines.append("# TYPE %s %s" % (figure.name, figure.kind))
                lines.extend(series(figure, labels, value) for labels, value in sorted(values.items()))
        return "".join(line + "\n" for line in lines)


def series(figure: Figure, labels: Sequence[str], value: float) -> str:
    """One line of the file: a figure's value for these values of its labels."""
    pairs = ['%s="%s"' % pair for pair in zip(figure.labels, map(escaped, labels))]  # noqa: B905 - put() compares
    return "%s%s %s" % (figure.name, "{%s}" % ",".join(pairs) if pairs else "", number(value))


def escaped(text: str) -> str:
    r"""A label's value as it is written between quotation marks.

    >>> escaped('a "b"')
    'a \\"b\\"'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """A value as Prometheus reads it.

    >>> number(3.0), number(0.25), number(float("inf"))
    ('3', '0.25', '+Inf')
    """
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "%d" % value if value == int(value) else repr(value)


def label(text: str) -> str:
    """A text of people as a label's value: one line without unprintable characters, not too long."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(line.encode("utf-8", "replace").decode().split())
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1].rstrip() + "…"


def bounded(counts: Mapping[Tuple[str, ...], float], most: int = MOST_REASONS) -> Dict[Tuple[str, ...], float]:
    """The largest counts; in the rest, the last label becomes `OTHER`, and they are added up.

    >>> bounded({("down", "a"): 3, ("down", "b"): 1, ("down", "c"): 1}, most=1)
    {('down', 'a'): 3, ('down', 'other'): 2}

    Args:
        counts: by labels.
        most: the highest number of them.
    """
    found: Dict[Tuple[str, ...], float] = {}
    for place, (labels, count) in enumerate(sorted(counts.items(), key=lambda one: (-one[1], one[0]))):
        key = labels if place < most else (*labels[:-1], OTHER)
        found[key] = found.get(key, 0) + count
    return found


def first(names: Iterable[str]) -> List[str]:
    """The first names in order, at most `MOST`."""
    return sorted(set(names))[:MOST]
