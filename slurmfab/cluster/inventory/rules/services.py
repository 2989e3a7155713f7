"""Rules about services around Slurm: mail, monitoring, the registry, and slurmrestd."""

from __future__ import annotations

import itertools

from slurmfab.base.ip_addresses import parsed
from slurmfab.base.paths import REGISTRY_FILES
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.monitoring import CLUSTER
from slurmfab.cluster.inventory.ports import listeners
from slurmfab.cluster.inventory.rules.power import unknown
from slurmfab.cluster.inventory.rules.storage import named, overlap, used_by_others
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place


def a_login_is_whole_and_encrypted(cluster: Cluster) -> Complaints:
    """A login has a name and a password, which is never sent in the clear."""
    mail = cluster.mail
    if mail is None:
        return
    if mail.user is not None and mail.password_file is None:
        yield ("mail", "user"), "a login needs password_file as well"
    if mail.password_file is not None and mail.user is None:
        yield ("mail", "password_file"), "a password needs user as well"
    if mail.user is not None and mail.tls == "off":
        yield ("mail", "tls"), "a password is sent over TLS only: write starttls or on"


FILES = ("/etc/default/prometheus", "/etc/default/prometheus-node-exporter", "/etc/prometheus/prometheus.yml")
"""Files of Debian's packages that are slurmfab's where the cluster file has `monitoring`."""


def monitored_hosts_are_known(cluster: Cluster) -> Complaints:
    """slurmfab sets up exporters and Prometheus on hosts of the cluster, and on no others."""
    monitoring = cluster.monitoring
    if monitoring is None:
        return
    prometheus = monitoring.prometheus
    if isinstance(monitoring.listen, dict):
        yield from unknown(("monitoring", "listen"), monitoring.listen, cluster.hosts, "no host of this cluster")
    if prometheus is not None and prometheus.host not in cluster.hosts:
        yield ("monitoring", "prometheus", "host"), f'"{prometheus.host}" is no host of this cluster'


def prometheus_reaches_all_exporters(cluster: Cluster) -> Complaints:
    """An exporter that listens on its host's loopback address answers nobody on another host."""
    monitoring = cluster.monitoring
    if monitoring is None or monitoring.prometheus is None:
        return
    for host in cluster.hosts:
        address = monitoring.listens_on(host)
        if host != monitoring.prometheus.host and address != CLUSTER and parsed(address).is_loopback:
            reason = f'"{host}" listens on {address}, where Prometheus on {monitoring.prometheus.host} cannot reach it'
            yield ("monitoring", "listen"), reason
            return


def listeners_have_ports_of_their_own(cluster: Cluster) -> Complaints:
    """Two daemons cannot listen on one port of one host; each of the two keys is named."""
    other_roles = [host for host in cluster.hosts if cluster.roles(host) != ("compute",)]
    prometheus = cluster.monitoring.prometheus if cluster.monitoring else None
    named = [one.host for one in (*cluster.exports, cluster.registry, prometheus) if one]
    # Nodes of a group that have no other role listen alike.
    told = set[frozenset[Place]]()
    for host in dict.fromkeys((*other_roles, *named, *(group.hosts[0] for group in cluster.nodes if group.hosts))):
        for one, other in itertools.combinations(listeners(cluster, host), 2):
            if one.ports.last < other.ports.first or other.ports.last < one.ports.first:
                continue
            places = frozenset({one.place, other.place} - {()})
            for mine, others in ((one, other), (other, one)) if places not in told else ():
                if mine.place:
                    key = f" ({'.'.join(map(str, others.place))})" if others.place else ""
                    yield mine.place, f"port {mine.ports} and port {others.ports}{key} are the same on {host}"
            told.add(places)


def openmetrics_needs_public_data(cluster: Cluster) -> Complaints:
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


def files_of_monitoring_are_slurmfabs(cluster: Cluster) -> Complaints:
    """Of two contents for one file, only one would be there."""
    for path in FILES if cluster.monitoring is not None else ():
        if path in cluster.files:
            yield ("files", path), "slurmfab writes it for the key monitoring"


_NO_PLACES = ("/etc", "/tmp", "/var/run", "/var/tmp")  # noqa: S108 - they are refused
"""Directories of settings, and those that are emptied."""


def the_registry_is_on_a_known_host(cluster: Cluster) -> Complaints:
    """slurmfab sets up a registry on a host of the cluster, and no other one."""
    if cluster.registry is not None and cluster.registry.host not in cluster.hosts:
        yield ("registry", "host"), f'"{cluster.registry.host}" is no host of this cluster'


def images_have_a_directory_of_their_own(cluster: Cluster) -> Complaints:
    """Everybody who may fetch images reads what is there, and who may send images writes there."""
    if cluster.registry is None:
        return
    path, place = cluster.registry.directory, ("registry", "directory")
    other = next((key for (key, *_), one in named(cluster) if key != place[0] and overlap(one, path)), "")
    if other:
        yield place, f'"{path}" contains, or is inside of, the directory of {other}'
    elif any(overlap(one, path) for one in _NO_PLACES):
        yield place, f'"{path}" is no place for images; name a directory such as /srv/images'
    elif used := used_by_others(path):
        yield place, f'"{path}" has files of {used}, which only its host may read'


def files_of_the_registry_are_slurmfabs(cluster: Cluster) -> Complaints:
    """Of two contents for one file, only one would be there."""
    for path in REGISTRY_FILES if cluster.registry is not None else ():
        if path in cluster.files:
            yield ("files", path), "slurmfab writes it for the key registry"


_OURS_OF_TOKENS = {
    "jwt_key": "for another key, see rotate-jwt-key",
    "max_token_lifespan": "write rest: {token_lifetime: …}",
}


def slurmrestd_has_slurms_files(cluster: Cluster) -> Complaints:
    """It reads slurm.conf, and runs beside what users of the cluster use; jobs have no business on its host."""
    if cluster.rest and not {"controller", "login"} & set(cluster.roles(cluster.rest.host)):
        yield ("rest",), f'"{cluster.rest.host}" is neither a controller nor a login host of this cluster'


def tokens_are_slurmfabs(cluster: Cluster) -> Complaints:
    """slurmdbd proves the tokens that slurmctld makes, by the same key; others of its parameters are the site's."""
    if not cluster.rest:
        return
    for key, value in cluster.slurm_conf.items():
        if key.lower() == "authaltparameters":
            for word in (value or "").split(","):
                name = word.partition("=")[0].strip().lower()
                if name in _OURS_OF_TOKENS:
                    yield ("slurm_conf", key), f"slurmfab writes {name} itself; {_OURS_OF_TOKENS[name]}"
    for key in cluster.slurmdbd_conf:
        if key.lower() in ("authalttypes", "authaltparameters"):
            yield ("slurmdbd_conf", key), f"slurmfab writes {key} itself, for the key rest at the top; remove this one"
