"""The task for a Prometheus elsewhere: monitoring-files."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(common=("cluster",), help={"output": "directory for the files"})
def monitoring_files(common: Common, *, output: str = "") -> int:
    """Write files for a Prometheus and a Grafana elsewhere.

    Targets, scrape configuration, alert rules and a dashboard of this cluster. No host is asked. Exit codes: 0 written,
    2 wrong input, or no host has been deployed yet.

    Examples:
        fab monitoring-files --output /etc/prometheus/slurmfab
    """
    from slurmfab.commands.monitoring_files import writing

    return writing.write_files(common.cluster, output)
