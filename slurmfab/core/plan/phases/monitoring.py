"""Figures for Prometheus: exporters on all hosts, Slurm's figures on controllers, and Prometheus itself on one host.

Debian's packages start their daemons at once, on all addresses; the policy of installations keeps them from that
(`on_hosts/agent/packages/daemon_policy.py`), so that none ever listens elsewhere than the cluster file says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from slurmfab.base.ip_addresses import in_url
from slurmfab.base.paths import (
    DRIFT_RESULT,
    GPU_CHECK_HISTORY,
    METRICS_DIRECTORY,
    METRICS_FILE,
    METRICS_PROGRAM,
    METRICS_SETTINGS,
    METRICS_UNIT,
    PROGRAMS,
    UNIT_FILES,
)
from slurmfab.cluster.inventory import ports
from slurmfab.cluster.inventory.monitoring import CLUSTER, Monitoring, Prometheus
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import NODE_EXPORTER, PROMETHEUS
from slurmfab.cluster.slurm.versions import tells_figures
from slurmfab.core.plan.alert_rules import alert_rules
from slurmfab.core.plan.own_address import own_address, trusted_address
from slurmfab.core.plan.phases.capability import owned, program_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer, UnitsLoaded

EXPORTER, SLURM, SERVER = "monitoring", "monitoring-slurm", "monitoring-server"
"""What hosts note slurmfab's files as: the exporter's, those of Slurm's figures, and Prometheus' own."""

EXPORTER_CONF = f"/etc/default/{NODE_EXPORTER}"
EXPORTER_DROP_IN = f"{UNIT_FILES}/{NODE_EXPORTER}.service.d/slurmfab.conf"
SERVER_CONF = f"/etc/default/{PROMETHEUS}"
SERVER_DROP_IN = f"{UNIT_FILES}/{PROMETHEUS}.service.d/slurmfab.conf"
SCRAPES = "/etc/prometheus/prometheus.yml"
ALERTS = "/etc/prometheus/slurmfab-alerts.yml"

PAGES = ("jobs", "nodes", "partitions", "scheduler")
"""What it tells, by the last part of the path (Slurm's metrics.html); figures by user are left out."""

TIMER = f"{METRICS_UNIT}.timer"

BOUNDS = (
    "follow_redirects: false",
    "sample_limit: 20000",
    "label_limit: 32",
    "label_name_length_limit: 128",
    "label_value_length_limit: 512",
    "body_size_limit: 4MB",
)
"""What one scrape of an exporter may bring, several times what a host with 384 CPUs tells; root there writes it.

A redirect would have Prometheus ask what only its own host reaches, and show the answer as the node's.
"""

BOUNDS_OF_SLURMCTLD = ("follow_redirects: false", "body_size_limit: 64MB")  # it tells all nodes and partitions at once

DISK_A_DAY = 100
"""Megabytes of Prometheus' disk for each host and day: some 20,000 figures in each 15 seconds, compressed."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """What a host has for monitoring, and the removal of what the cluster file no longer asks for."""
    monitoring = plan_input.cluster.monitoring
    prometheus = monitoring.prometheus if monitoring else None
    return (
        *((Directory(METRICS_DIRECTORY),) if monitoring else ()),
        *(
            slurm(plan_input, host, monitoring)
            if monitoring and collects(plan_input, host)
            else no_slurm(plan_input, host)
        ),
        *(exporter(plan_input, host, monitoring) if monitoring else no_exporter(plan_input, host)),
        *(
            server(plan_input, host, monitoring, prometheus)
            if monitoring and prometheus and prometheus.host == host
            else without(plan_input, host, SERVER, PROMETHEUS)
        ),
    )


def exporter(plan_input: PlanInput, host: str, monitoring: Monitoring) -> tuple[Resource, ...]:
    """The exporter of a host, which listens where the cluster file says.

    It reads files of figures in one directory of root's, and takes no pattern: users such as slurm own directories in
    /var/lib, and could make one that matches.
    """
    values = {
        "address": place(plan_input, host, monitoring.listens_on(host), monitoring.port),
        "directory": METRICS_DIRECTORY,
    }
    files = (
        OwnedFile(EXPORTER_CONF, fill("node-exporter", values)),
        OwnedFile(EXPORTER_DROP_IN, fill("node-exporter-unit.conf", {})),
    )
    return (
        *owned(plan_input, host, EXPORTER, files),
        UnitsLoaded(EXPORTER, (NODE_EXPORTER,), drop_ins=(EXPORTER_DROP_IN,)),
        Service(NODE_EXPORTER, watches=(EXPORTER_CONF, EXPORTER_DROP_IN)),
    )


def no_exporter(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of the exporter, and then of the directory whose files it read."""
    gone = without(plan_input, host, EXPORTER, NODE_EXPORTER)
    return (*gone, Program(METRICS_DIRECTORY, ())) if gone else ()


def place(plan_input: PlanInput, host: str, named: str, port: int) -> str:
    """Address and port on which a daemon of a host listens. `named`: an address, or `cluster`."""
    return f"{in_url(own_address(plan_input, host, '' if named == CLUSTER else named))}:{port}"


def without(plan_input: PlanInput, host: str, of: str, unit: str) -> tuple[Resource, ...]:
    """The removal of a daemon's files (noted as `of`), and its end, but if somebody else had installed it."""
    if not plan_input.owns(host, of):
        return ()
    is_ours = unit in plan_input.facts[host].added_packages
    return (
        *((Service(unit, running=False),) if is_ours else ()),
        *owned(plan_input, host, of, ()),
        UnitsLoaded(of, (unit,)),
        *(() if is_ours else (Service(unit, watches=(f"/etc/default/{unit}",)),)),
    )


def collects(plan_input: PlanInput, host: str) -> bool:
    """Whether a host has the program that collects figures: on controllers, and where backups are made."""
    cluster = plan_input.cluster
    return host in cluster.controllers or host in cluster.backup_hosts


def slurm(plan_input: PlanInput, host: str, monitoring: Monitoring) -> tuple[Resource, ...]:
    """The program that collects Slurm's figures, and its timer."""
    context = {
        "program": METRICS_PROGRAM,
        "settings": METRICS_SETTINGS,
        "directory": METRICS_DIRECTORY,
        "seconds": monitoring.every,
    }
    units = (f"{METRICS_UNIT}.{kind}" for kind in ("service", "timer"))
    files = (
        OwnedFile(METRICS_SETTINGS, settings(plan_input, host)),
        *(OwnedFile(f"{UNIT_FILES}/{name}", fill(name, context)) for name in units),
    )
    return (
        Directory(PROGRAMS),
        Program(METRICS_PROGRAM, program_files("programs.slurm_metrics.main")),
        *owned(plan_input, host, SLURM, files),
        Timer(METRICS_UNIT),
    )


def no_slurm(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of all that; the files' record goes last: an interrupted run finds it."""
    if not plan_input.owns(host, SLURM):
        return ()
    return (
        Service(TIMER, running=False),
        Service(METRICS_UNIT, running=False),
        Program(METRICS_PROGRAM, ()),
        Absent(METRICS_FILE),
        *owned(plan_input, host, SLURM, ()),
        UnitsLoaded(SLURM, (METRICS_UNIT, TIMER)),
    )


def settings(plan_input: PlanInput, host: str) -> str:
    """The settings of the program as JSON text."""
    cluster = plan_input.cluster
    is_controller, backup = host in cluster.controllers, cluster.backup
    found: dict[str, object] = {"file": METRICS_FILE, "slurm": is_controller}
    if is_controller:
        found.update({"accounting": cluster.has_accounts, "drift": DRIFT_RESULT})
    if backup is not None and host in cluster.backup_hosts:
        found["backups"] = {"directory": backup.directory, "cluster": cluster.name}
    if cluster.gpu_checks is not None and host == cluster.controller:
        found["gpu_checks"] = GPU_CHECK_HISTORY
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def server(plan_input: PlanInput, host: str, monitoring: Monitoring, prometheus: Prometheus) -> tuple[Resource, ...]:
    """Prometheus itself, which asks all exporters."""
    files = tuple(server_files(plan_input, monitoring, prometheus))
    return (
        *owned(plan_input, host, SERVER, files),
        UnitsLoaded(SERVER, (PROMETHEUS,), drop_ins=(SERVER_DROP_IN,)),
        Service(PROMETHEUS, watches=tuple(file.path for file in files)),
    )


def server_files(plan_input: PlanInput, monitoring: Monitoring, prometheus: Prometheus) -> Iterator[OwnedFile]:
    """Yield the files of Prometheus: where it listens, what it asks, and when it raises an alarm."""
    cluster, own = plan_input.cluster, place(plan_input, prometheus.host, prometheus.listen, prometheus.port)
    hosts = [host for host in cluster.hosts if host in plan_input.facts or plan_input.host(host).hostname]
    slurmctld = ports.port(cluster, "SlurmctldPort")
    values = {
        "host": prometheus.host,
        "cluster": cluster.name,
        "every": prometheus.every,
        "rules": ALERTS,
        "own": reached(plan_input, prometheus.host, prometheus.listen, prometheus.port),
        "targets": [
            (host, reached(plan_input, host, monitoring.listens_on(host), monitoring.port)) for host in hosts
        ],
        "controllers": [(host, f"{in_url(plan_input.address(host))}:{slurmctld}") for host in
                        cluster.controllers],
        "pages": PAGES if tells_itself(plan_input) else (),
        "bounds": BOUNDS,
        "bounds_of_slurmctld": BOUNDS_OF_SLURMCTLD,
    }  # fmt: skip
    daily = DISK_A_DAY * len(hosts) * max(1, 15 // prometheus.every)
    options = {"address": own, "retention": prometheus.retention, "megabytes": 1000 + prometheus.days * daily}
    yield OwnedFile(SERVER_CONF, fill("prometheus", options))
    yield OwnedFile(SCRAPES, fill("prometheus.yml", values))
    yield OwnedFile(ALERTS, alert_rules(cluster))
    yield OwnedFile(SERVER_DROP_IN, fill("prometheus-unit.conf", {}))


def reached(plan_input: PlanInput, host: str, named: str, port: int) -> str:
    """Address and port by which others reach a daemon; for one that listens everywhere, the host's own address."""
    return f"{in_url(trusted_address(plan_input, host, '' if named in ports.ANYWHERE else named))}:{port}"


def tells_itself(plan_input: PlanInput) -> bool:
    """Whether slurmctld tells figures itself."""
    monitoring = plan_input.cluster.monitoring
    return monitoring is not None and monitoring.openmetrics and tells_figures(plan_input.oldest_slurm)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of the exporter, and of Prometheus on its host."""
    monitoring = plan_input.cluster.monitoring
    if monitoring is None:
        return ()
    prometheus = monitoring.prometheus
    return (NODE_EXPORTER, *((PROMETHEUS,) if prometheus and prometheus.host == host else ()))
