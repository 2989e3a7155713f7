"""The task `monitoring-files`: what a Prometheus and a Grafana elsewhere need, as files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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
from slurmfab.commands.monitoring_files.dashboard import dashboard
from slurmfab.core.engine import missing_lock
from slurmfab.core.plan.alert_rules import alert_rules
from slurmfab.core.plan.phases.monitoring import PAGES, reached
from slurmfab.core.plan.plan_input import PlanInput

MADE = "# Made by slurmfab from the cluster file; to be made anew after each change of its hosts."
DASHBOARD = "slurmfab-dashboard.json"


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
    """The exporters as JSON for `file_sd_configs`.

    Each has the job `node`, which the rules and the dashboard ask for: several clusters cannot share a name of scrapes.
    """
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
             "    file_sd_configs:", f"      - files: [{name}.targets.json]"]  # fmt: skip
    oldest = min(map(SlurmVersion.parse, known.lock.slurm_versions), default=None)
    if not (monitoring.openmetrics and oldest and tells_figures(oldest)):
        return "\n".join(lines) + "\n"
    plan_input = PlanInput(cluster, known.lock, {})
    for page in PAGES:
        lines += [f"  - job_name: {name}-{page}", f"    scrape_interval: {interval}s",
                  f"    metrics_path: /metrics/{page}", "    static_configs:"]  # fmt: skip
        for host in cluster.controllers:
            target = f"{in_url(plan_input.address(host))}:{port(cluster, 'SlurmctldPort')}"
            labels = {"instance": host, "cluster": cluster.name, "job": f"slurm-{page}"}
            lines.append(f"      - {json.dumps({'targets': [target], 'labels': labels})}")
    return "\n".join(lines) + "\n"
