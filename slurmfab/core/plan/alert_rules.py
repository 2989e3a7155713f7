"""The alert rules for Prometheus, which its host in the cluster has, and which `monitoring-files` writes for others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.values import period

CRITICAL, WARNING = "critical", "warning"

PAGE = "docs/monitoring.md"  # the page with a section for each alert

ON_CLUSTER, ON_HOST = "{{ $labels.cluster }}", "{{ $labels.instance }} of {{ $labels.cluster }}"
AGE = "{{ $value | humanizeDuration }}"
_HOUR = 3600


class Rule(NamedTuple):
    """An alert rule."""

    alert: str  # its name, which is the heading of its section in the documentation
    expr: str  # what has to hold, in PromQL
    lasting: str  # for how long it has to hold (`for`)
    severity: str  # `critical` or `warning`
    summary: str  # which host or cluster, and what is wrong there


def alert_rules(cluster: Cluster) -> str:
    """The rules of a cluster as a rule file of Prometheus, without those about what its file does not ask for."""
    lines = [
        "# Made by slurmfab from the cluster file; edits here are overwritten.",
        "groups:",
        f"  - name: slurmfab-{cluster.name}",
        "    rules:",
    ]
    for rule in rules(cluster):
        lines += [
            f"      - alert: {rule.alert}",
            f"        expr: {json.dumps(rule.expr)}",
            f"        for: {rule.lasting}",
            f"        labels: {{severity: {rule.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          runbook: {json.dumps(f'slurmfab, {PAGE}#{rule.alert.lower()}')}",
        ]
    return "\n".join(lines) + "\n"


def rules(cluster: Cluster) -> Iterator[Rule]:
    """Yield the rules of a cluster; all are about series with its name alone.

    Slurm's figures are those of controllers alone: root of another host can put series with these names there.
    """
    own = f'cluster="{cluster.name}"'
    told = f"{own},instance=~{json.dumps(one_of(cluster.controllers))}"
    yield from slurm_rules(own, told)
    yield from node_rules(own, told)
    yield from disk_rules(cluster, own)
    if cluster.backup is not None:
        last, most = f"slurmfab_backup_last_timestamp_seconds{{{told}}}", cluster.backup.oldest
        summary = f"The newest backup on {ON_HOST} is {AGE} old."
        yield Rule("BackupTooOld", f"time() - {last} > {most}", "10m", WARNING, summary)
        yield Rule("BackupMissing", f"absent({last})", "1d", WARNING, f"{ON_CLUSTER} has no backup.")
    yield from gpu_rules(cluster, told)
    yield from drift_rules(cluster, told)


def slurm_rules(own: str, told: str) -> Iterator[Rule]:
    """Yield the rules about Slurm's daemons, the queue, and the figures about them. `told`: labels of controllers'."""
    name = ON_CLUSTER
    is_up = f"slurm_up{{{told}}}"
    yield Rule("SlurmctldDown", f"max by (cluster) ({is_up}) == 0 or absent({is_up})", "2m", CRITICAL,
               f"No slurmctld of {name} answers.")  # fmt: skip
    yield Rule("SlurmctldNotThere", f"min by (cluster, controller) (slurm_slurmctld_up{{{told}}}) == 0", "10m", WARNING,
               f"slurmctld on {{{{ $labels.controller }}}} of {name} does not answer.")  # fmt: skip
    yield Rule("SlurmFiguresOld", f"time() - slurmfab_metrics_timestamp_seconds{{{told}}} > 600", "5m", WARNING,
               f"Slurm's figures of {ON_HOST} are {AGE} old.")  # fmt: skip
    yield Rule("FiguresUnreadable", f"node_textfile_scrape_error{{{own}}} == 1", "10m", WARNING,
               f"The exporter of {ON_HOST} cannot read a file with figures.")  # fmt: skip
    yield Rule("SlurmdbdBehind", f"slurm_slurmdbd_agent_queue_length{{{told}}} > 5000", "15m", WARNING,
               f"{{{{ $value }}}} messages of slurmctld of {name} wait for slurmdbd.")  # fmt: skip
    yield Rule("QueueWaitsTooLong", f'slurm_jobs_pending_wait_seconds{{{told},quantile="0.5"}} > 86400', "1h", WARNING,
               f"Half of the jobs of {name} that could start have waited for {AGE} or longer.")  # fmt: skip


def node_rules(own: str, told: str) -> Iterator[Rule]:
    """Yield the rules about hosts, by labels of their own series, and about nodes, by those that controllers tell."""
    node = f"{{{{ $labels.node }}}} of {ON_CLUSTER}"
    away = f'slurm_node_out_of_service{{{told},state=~"%s"}} == 1'
    yield Rule("HostDown", f'up{{{own},job="node"}} == 0', "5m", WARNING, f"The exporter of {ON_HOST} does not answer.")
    # Prometheus keeps each new series in memory for some three hours; a whole host, seen anew, has 20,000 at most.
    added = f'sum_over_time(scrape_series_added{{{own},job="node"}}[15m])'
    yield Rule("HostTellsNewFigures", f"sum by (cluster, instance) ({added}) > 45000", "1m", WARNING,
               f"{ON_HOST} told {{{{ $value }}}} new series of figures in 15 minutes; Prometheus keeps them in "
               "memory.")  # fmt: skip
    clock = f"node_time_seconds{{{own}}}"
    yield Rule("HostClockWrong", f"abs({clock} - timestamp({clock})) > 60", "5m", WARNING,
               f"The clock of {ON_HOST} is {AGE} wrong; munge rejects credentials after 5 minutes.")  # fmt: skip
    yield Rule("SlurmNodeDown", away % "down|not_responding", "10m", WARNING,
               f"{node} is {{{{ $labels.state }}}}: no slurmd, no munged, or no connection.")  # fmt: skip
    yield Rule("SlurmNodeDrained", away % "drained", "1d", WARNING, f"{node} has been drained for a day.")
    yield Rule("SlurmNodesWithoutReason", f'slurm_nodes_out_of_service{{{told},reason="none"}} > 0', "15m", WARNING,
               f"{{{{ $value }}}} nodes of {ON_CLUSTER} are {{{{ $labels.state }}}}, and nobody says why.")  # fmt: skip


def disk_rules(cluster: Cluster, own: str) -> Iterator[Rule]:
    """Yield the rules about full file systems."""

    def free(labels: str) -> str:
        return f"node_filesystem_avail_bytes{{{labels}}} / node_filesystem_size_bytes{{{labels}}}"

    state = PurePosixPath(cluster.state_directory)
    places = one_of(str(path) for path in (state, *state.parents))
    hosts = one_of(cluster.controllers)
    # The directory is on the file system with the longest of these mount points; another full one above is bad, too.
    labels = f"{own},instance=~{json.dumps(hosts)},mountpoint=~{json.dumps(places)}"
    left = f"{{{{ $labels.mountpoint }}}} of {ON_HOST} has {{{{ $value | humanizePercentage }}}} left"
    yield Rule("StateDirectoryFull", f"{free(labels)} < 0.05", "5m", CRITICAL,
               f"{left}; {cluster.state_directory} has Slurm's state.")  # fmt: skip
    yield Rule("DiskFull", f'{free(own + ",fstype!~" + json.dumps("ramfs|squashfs|iso9660"))} < 0.05', "30m", WARNING,
               f"{left}.")  # fmt: skip


def gpu_rules(cluster: Cluster, told: str) -> Iterator[Rule]:
    """Yield the rules about GPU checks. `told`: labels of what controllers tell."""
    checks = cluster.gpu_checks
    if checks is None:
        return
    yield Rule("GpuCheckFailed", f'slurmfab_gpu_check_nodes{{{told},outcome="falls_short"}} > 0', "1m", WARNING,
               f"The GPUs of {{{{ $value }}}} nodes of {ON_CLUSTER} are too slow.")  # fmt: skip
    if checks.oldest:
        last = f"slurmfab_gpu_check_last_timestamp_seconds{{{told}}}"
        yield Rule("GpuCheckTooOld", f"time() - {last} > {checks.oldest}", "10m", WARNING,
                   f"The last GPU check of {ON_CLUSTER} was {AGE} ago.")  # fmt: skip


def drift_rules(cluster: Cluster, told: str) -> Iterator[Rule]:
    """Yield the rules about drift. `told`: labels of what controllers tell."""
    if cluster.drift is None:
        return
    last = f"max by (cluster) (slurmfab_drift_last_run_timestamp_seconds{{{told}}})"
    yield Rule("Drift", f"max by (cluster, kind) (slurmfab_drift_resources{{{told}}}) > 0", "15m", WARNING,
               f"{{{{ $value }}}} resources of {ON_CLUSTER} differ from the cluster file: {{{{ $labels.kind }}}}."
               )  # fmt: skip
    yield Rule("DriftNotCompared", f"time() - {last} > {2 * period(cluster.drift.when) + _HOUR}", "10m", WARNING,
               f"The hosts of {ON_CLUSTER} were compared with the cluster file {AGE} ago.")  # fmt: skip


def one_of(words: Iterator[str] | tuple[str, ...]) -> str:
    """A regular expression for one of these words, in the syntax of RE2."""
    return "|".join(re.sub(r"([.+])", r"\\\1", word) for word in words)
