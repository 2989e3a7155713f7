"""Rules about figures for Prometheus."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.monitoring import CLUSTER
from slurmfab.cluster.inventory.rules.power import unknown
from slurmfab.cluster.inventory.slurm_settings import Place

_SLURMS_PORTS = {"slurmctldport": 6817, "slurmdport": 6818}
"""Keys of slurm.conf with a port, and its default (slurm.conf(5))."""

_SLURMDBD_PORT = 6819

FILES = ("/etc/default/prometheus", "/etc/default/prometheus-node-exporter", "/etc/prometheus/prometheus.yml")
"""Files of Debian's packages that are slurmfab's where the cluster file has `monitoring`."""


def monitored_hosts_are_known(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmfab sets up exporters and Prometheus on hosts of the cluster, and on no others."""
    monitoring = cluster.monitoring
    if monitoring is None:
        return
    prometheus = monitoring.prometheus
    if isinstance(monitoring.listen, dict):
        yield from unknown(("monitoring", "listen"), monitoring.listen, cluster.hosts, "no host of this cluster")
    if prometheus is not None and prometheus.host not in cluster.hosts:
        yield ("monitoring", "prometheus", "host"), f'"{prometheus.host}" is no host of this cluster'


def prometheus_reaches_all_exporters(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """An exporter that listens on its host's loopback address answers nobody on another host."""
    monitoring = cluster.monitoring
    if monitoring is None or monitoring.prometheus is None:
        return
    for host in cluster.hosts:
        address = monitoring.listens_on(host)
        if host != monitoring.prometheus.host and address != CLUSTER and ipaddress.ip_address(address).is_loopback:
            reason = f'"{host}" listens on {address}, where Prometheus on {monitoring.prometheus.host} cannot reach it'
            yield ("monitoring", "listen"), reason
            return


def ports_of_monitoring_are_free(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Two daemons cannot listen on one port of one host."""
    monitoring = cluster.monitoring
    if monitoring is None:
        return
    prometheus = monitoring.prometheus
    taken = dict(_taken(cluster))
    if monitoring.port in taken:
        yield ("monitoring", "port"), f"{monitoring.port} is the port of {taken[monitoring.port]}"
    if prometheus is not None:
        taken[monitoring.port] = "the exporters (monitoring.port)"
        if prometheus.port in taken:
            place = ("monitoring", "prometheus", "port")
            yield place, f"{prometheus.port} is the port of {taken[prometheus.port]}"


def _taken(cluster: Cluster) -> Iterator[tuple[int, str]]:
    """Yield ports of other daemons of the cluster file, and whose they are."""
    own = {key.lower(): value for key, value in cluster.slurm_conf.items()}
    for key, default in _SLURMS_PORTS.items():
        port = own.get(key) or str(default)
        if port.isdigit():
            yield int(port), f"Slurm ({key.removesuffix('port')})"
    if cluster.database is not None:
        yield _SLURMDBD_PORT, "slurmdbd"
    if cluster.registry is not None:
        yield cluster.registry.port, "registry"
        if cluster.registry.anonymous_pull:
            yield cluster.registry.pull_port, "registry (pull_port)"


def openmetrics_needs_public_data(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmctld tells its figures to everybody who reaches it, and not at all with PrivateData."""
    monitoring = cluster.monitoring
    if monitoring is None or not monitoring.openmetrics:
        return
    place = ("monitoring", "openmetrics")
    spelled = {key.lower(): key for key in cluster.slurm_conf}
    if cluster.private_data or "privatedata" in spelled:
        yield place, "slurmctld tells no figures with PrivateData (private_data); leave one of the two out"
    if "metricstype" in spelled:
        yield ("slurm_conf", spelled["metricstype"]), "slurmfab writes MetricsType itself, for monitoring.openmetrics"


def files_of_monitoring_are_slurmfabs(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Of two contents for one file, only one would be there."""
    for path in FILES if cluster.monitoring is not None else ():
        if path in cluster.files:
            yield ("files", path), "slurmfab writes it for the key monitoring"


RULES = (
    monitored_hosts_are_known,
    prometheus_reaches_all_exporters,
    ports_of_monitoring_are_free,
    openmetrics_needs_public_data,
    files_of_monitoring_are_slurmfabs,
)
