"""The findings as metrics: a file that node-exporter's textfile collector reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from slurmfab.commands.drift.findings import KINDS, Findings

TYPES = {
    "slurmfab_drift_resources": "Resources on hosts that are not as the cluster file says, by kind of difference.",
    "slurmfab_drift_host_resources": "The same by host; hosts without a difference have no line.",
    "slurmfab_drift_hosts": "Hosts by what the comparison found; sleeping nodes are not among them.",
    "slurmfab_drift_last_run_timestamp_seconds": "When the hosts were last compared.",
    "slurmfab_drift_last_run_duration_seconds": "How long that took.",
}
"""The metrics with their help; all are gauges."""

Sample = tuple[dict[str, str], float]


def exposition(findings: Findings, at: float, seconds: float) -> str:
    """The findings in Prometheus' text format. `at`: when it ended, in seconds since 1970."""
    kinds = Counter(one.kind for one in findings.differing)
    hosts = Counter(one.host for one in findings.differing)
    values: dict[str, Iterable[Sample]] = {
        "slurmfab_drift_resources": [({"kind": kind}, kinds[kind]) for kind in KINDS],
        "slurmfab_drift_host_resources": [({"host": host}, count) for host, count in sorted(hosts.items())],
        "slurmfab_drift_hosts": [({"state": state}, count) for state, count in findings.hosts_by_state().items()],
        "slurmfab_drift_last_run_timestamp_seconds": [({}, round(at, 3))],
        "slurmfab_drift_last_run_duration_seconds": [({}, round(seconds, 3))],
    }
    lines = []
    for name, samples in values.items():
        lines += [f"# HELP {name} {TYPES[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{labels({'cluster': findings.cluster, **own})}}} {value}" for own, value in samples]
    return "\n".join(lines) + "\n"


def labels(values: dict[str, str]) -> str:
    """Labels of a sample; backslashes, quotes and line breaks are escaped."""
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values.values())
    return ",".join(f'{name}="{value}"' for name, value in zip(values, escaped, strict=True))
