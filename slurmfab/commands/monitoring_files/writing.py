"""The task `monitoring-files`: what a Prometheus and a Grafana elsewhere need, as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError
from slurmfab.base.ip_addresses import in_url
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.monitoring import Monitoring
from slurmfab.cluster.inventory.ports import port
from slurmfab.cluster.slurm.versions import SlurmVersion, tells_figures
from slurmfab.core.engine import missing_lock
from slurmfab.core.plan.alert_rules import alert_rules
from slurmfab.core.plan.phases.monitoring import BOUNDS, BOUNDS_OF_SLURMCTLD, PAGES, reached
from slurmfab.core.plan.plan_input import PlanInput

SCHEMA = 39  # version of the dashboard's format (Grafana 10.4); later Grafanas bring it up to their own
COLUMNS, HEIGHT = 24, 8  # columns of a dashboard, and the rows that a panel has

LINES, NUMBER, TABLE = "timeseries", "stat", "table"
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CLUSTER = 'cluster="$cluster"'
NODE = f'{CLUSTER},job="node"'
REAL = f'{NODE},fstype!~"ramfs|squashfs|iso9660"'

MADE = "# Made by slurmfab from the cluster file; to be made anew after each change of its hosts."
DASHBOARD = "slurmfab-dashboard.json"


class Panel(NamedTuple):
    """A panel."""

    title: str
    kind: str
    unit: str
    queries: tuple[tuple[str, str], ...]  # in PromQL, each with the legend of its series
    width: int = 8
    is_stacked: bool = False  # whether areas are on top of each other


def of(metric: str, labels: str = CLUSTER) -> str:
    """A selector of a metric of the chosen cluster."""
    return f"{metric}{{{labels}}}"


def age(metric: str) -> str:
    """How long ago the newest of these moments was, in seconds."""
    return f"time() - max({of(metric)})"


PANELS: tuple[Panel, ...] = (
    Panel("slurmctld", NUMBER, "none", ((f"max({of('slurm_up')})", "answers"),), 4),
    Panel("Hosts that answer", NUMBER, "none",
          ((f"sum({of('up', NODE)})", "up"), (f"count({of('up', NODE)})", "of")), 4),
    Panel("Jobs", NUMBER, "none", ((of("slurm_jobs", f'{CLUSTER},state=~"running|pending"'), "{{state}}"),), 4),
    Panel("Drift", NUMBER, "none", ((f"sum(max by (kind) ({of('slurmfab_drift_resources')}))", "differences"),), 4),
    Panel("Newest backup", NUMBER, "s", ((age("slurmfab_backup_last_timestamp_seconds"), "age"),), 4),
    Panel("Last GPU check", NUMBER, "s", ((age("slurmfab_gpu_check_last_timestamp_seconds"), "age"),), 4),
    Panel("Nodes by state", LINES, "none", ((of("slurm_nodes"), "{{state}}"),), 12, is_stacked=True),
    Panel("Nodes out of service", TABLE, "none", ((of("slurm_nodes_out_of_service"), "{{state}}: {{reason}}"),), 12),
    Panel("GPUs by type", LINES, "none", ((of("slurm_cluster_gpus"), "{{type}} {{state}}"),), is_stacked=True),
    Panel("GPUs in use by partition", LINES, "none",
          ((of("slurm_gpus", f'{CLUSTER},state="allocated"'), "{{partition}} {{type}}"),)),
    Panel("CPUs", LINES, "none", ((of("slurm_cluster_cpus"), "{{state}}"),), is_stacked=True),
    Panel("Jobs by state", LINES, "none", ((of("slurm_jobs"), "{{state}}"),), is_stacked=True),
    Panel("Waiting jobs by reason", LINES, "none", ((of("slurm_jobs_pending"), "{{reason}}"),), is_stacked=True),
    Panel("Jobs by partition", LINES, "none", ((of("slurm_partition_jobs"), "{{partition}} {{state}}"),)),
    Panel("How long jobs have waited", LINES, "s",
          ((of("slurm_jobs_pending_wait_seconds"), "quantile {{quantile}}"),
           (of("slurm_jobs_pending_oldest_seconds"), "longest"))),
    Panel("Jobs started and ended per minute", LINES, "none",
          ((f"60 * rate({of('slurm_job_events_total')}[5m])", "{{event}}"),)),
    Panel("Scheduler", LINES, "s",
          ((of("slurm_scheduler_mean_cycle_seconds"), "{{scheduler}} mean"),
           (of("slurm_scheduler_max_cycle_seconds"), "{{scheduler}} longest"))),
    Panel("Queues of slurmctld", LINES, "none",
          ((of("slurm_slurmctld_threads"), "threads"), (of("slurm_slurmctld_agent_queue_length"), "to nodes"),
           (of("slurm_slurmdbd_agent_queue_length"), "to slurmdbd"))),
    Panel("Fair share of accounts (LevelFS)", LINES, "none", ((of("slurm_account_level_fairshare"), "{{account}}"),)),
    Panel("Use of accounts", LINES, "percentunit", ((of("slurm_account_usage_ratio"), "{{account}}"),)),
    Panel("Load by CPU", LINES, "none",
          ((f"{of('node_load5', NODE)} / on (instance) count by (instance) "
            f"({of('node_cpu_seconds_total', NODE + ',mode=' + chr(34) + 'idle' + chr(34))})", "{{instance}}"),)),
    Panel("Memory in use", LINES, "percentunit",
          ((f"1 - {of('node_memory_MemAvailable_bytes', NODE)} / {of('node_memory_MemTotal_bytes', NODE)}",
            "{{instance}}"),)),
    Panel("Fullest file system", LINES, "percentunit",
          ((f"max by (instance) (1 - {of('node_filesystem_avail_bytes', REAL)} / "
            f"{of('node_filesystem_size_bytes', REAL)})", "{{instance}}"),)),
    Panel("GPU checks", LINES, "none", ((of("slurmfab_gpu_check_nodes"), "{{outcome}}"),)),
    Panel("Drift by kind", LINES, "none",
          ((f"max by (kind) ({of('slurmfab_drift_resources')})", "{{kind}}"),), is_stacked=True),
    Panel("Hosts compared with the cluster file", LINES, "none",
          ((f"max by (state) ({of('slurmfab_drift_hosts')})", "{{state}}"),), is_stacked=True),
    Panel("Age of the last comparison", LINES, "s", ((age("slurmfab_drift_last_run_timestamp_seconds"), "age"),)),
    Panel("Age and time of Slurm's figures", LINES, "s",
          ((age("slurmfab_metrics_timestamp_seconds"), "age"),
           (f"max({of('slurmfab_metrics_duration_seconds')})", "time"))),
)  # fmt: skip
"""The panels, from left to right and from top to bottom."""


def queries() -> tuple[str, ...]:
    """The queries of all panels."""
    return tuple(query for panel in PANELS for query, _ in panel.queries)


def dashboard() -> dict[str, Any]:
    """The dashboard as JSON values; its variables choose the data source and the cluster."""
    return {
        "uid": "slurmfab-cluster",
        "title": "Slurm cluster",
        "tags": ["slurm", "slurmfab"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(variables())},
        "annotations": {"list": []},
        "panels": list(panels()),
    }


def variables() -> Iterator[dict[str, Any]]:
    """Yield the variables."""
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
    yield {
        "name": "cluster",
        "label": "Cluster",
        "type": "query",
        "datasource": DATA_SOURCE,
        "definition": "label_values(slurm_up, cluster)",
        "query": {"query": "label_values(slurm_up, cluster)", "refId": "cluster"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
    }


def panels() -> Iterator[dict[str, Any]]:
    """Yield the panels with their places; a row is full when the next one does not fit."""
    x = y = 0
    for number, panel in enumerate(PANELS, start=1):
        if x + panel.width > COLUMNS:
            x, y = 0, y + HEIGHT
        place = {"x": x, "y": y, "w": panel.width, "h": HEIGHT}
        yield {"id": number, "gridPos": place, **panel_values(panel)}
        x += panel.width


def panel_values(panel: Panel) -> Mapping[str, Any]:
    """A panel as JSON values, without its place."""
    is_now = panel.kind != LINES
    custom = {"fillOpacity": 20, "stacking": {"mode": "normal"}} if panel.is_stacked else {}
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": DATA_SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "options": {"colorMode": "none", "textMode": "value_and_name"} if panel.kind == NUMBER else {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATA_SOURCE,
                "expr": query,
                "legendFormat": legend,
                "instant": is_now,
                "range": not is_now,
                **({"format": "table"} if panel.kind == TABLE else {}),
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def write_files(cluster: str, output: str) -> int:
    """Write the files, and say how Prometheus and Grafana read them; no host is asked.

    Raises InputError if the cluster file has no `monitoring`, no host has answered yet, or a file cannot be written.
    """
    known = loading.load_named(cluster)
    if not output:
        raise InputError(f"Give a directory for the files: {FAB} monitoring-files --output DIRECTORY.")
    folder = Path(output)
    texts = files(known)
    for name, text in texts.items():
        atomic_file.write(folder / name, text, new=atomic_file.READABLE_BY_ALL)
    place = folder.absolute()
    write(
        f"Wrote {', '.join(texts)} to {folder}. In prometheus.yml (Prometheus 2.43 and later):\n"
        f'  scrape_config_files: ["{place}/slurmfab-*.scrape.yml"]\n'
        f'  rule_files: ["{place}/slurmfab-*.rules.yml"]\n'
        f"Import {DASHBOARD} in Grafana (10 and later).",
        sys.stdout,
    )
    return 0


def files(known: Inventory) -> dict[str, str]:
    """The text of each file by its name; InputError without `monitoring`, or if no host has answered yet."""
    cluster = known.cluster
    if cluster.monitoring is None:
        raise InputError(f"{known.path} has no monitoring. Add monitoring: true to it, then: {FAB} deploy.")
    missing_lock.require_deployed(known)
    plan_input = PlanInput(cluster, known.lock, {})
    name = f"slurmfab-{cluster.name}"
    return {
        f"{name}.scrape.yml": scrapes(known, cluster.monitoring),
        f"{name}.targets.json": targets(plan_input, cluster.monitoring),
        f"{name}.rules.yml": alert_rules(cluster),
        DASHBOARD: json.dumps(dashboard(), indent=2) + "\n",
    }


def targets(plan_input: PlanInput, monitoring: Monitoring) -> str:
    """The exporters as JSON for `file_sd_configs`, with the job `node` that rules and dashboard ask for."""
    name = plan_input.cluster.name
    values = [
        {
            "targets": [reached(plan_input, host, monitoring.listens_on(host), monitoring.port)],
            "labels": {"instance": host, "cluster": name, "job": "node"},
        }
        for host in plan_input.members
    ]
    return json.dumps(values, indent=1) + "\n"


def scrapes(known: Inventory, monitoring: Monitoring) -> str:
    """The scrape configurations of a cluster: its exporters, and slurmctld where it tells figures itself."""
    cluster, name = known.cluster, f"slurmfab-{known.cluster.name}"
    interval = monitoring.prometheus.every if monitoring.prometheus else monitoring.every
    lines = [MADE, "scrape_configs:", f"  - job_name: {name}", f"    scrape_interval: {interval}s",
             *(f"    {bound}" for bound in BOUNDS),
             "    file_sd_configs:", f"      - files: [{name}.targets.json]"]  # fmt: skip
    oldest = min(map(SlurmVersion.parse, known.lock.slurm_versions), default=None)
    if not (monitoring.openmetrics and oldest and tells_figures(oldest)):
        return "\n".join(lines) + "\n"
    plan_input = PlanInput(cluster, known.lock, {})
    for page in PAGES:
        lines += [f"  - job_name: {name}-{page}", f"    scrape_interval: {interval}s",
                  f"    metrics_path: /metrics/{page}", *(f"    {bound}" for bound in BOUNDS_OF_SLURMCTLD),
                  "    static_configs:"]  # fmt: skip
        for host in cluster.controllers:
            target = f"{in_url(plan_input.address(host))}:{port(cluster, 'SlurmctldPort')}"
            labels = {"instance": host, "cluster": cluster.name, "job": f"slurm-{page}"}
            lines.append(f"      - {json.dumps({'targets': [target], 'labels': labels})}")
    return "\n".join(lines) + "\n"
