"""The TCP ports on which the hosts of a cluster listen for each other, and which of them each host has to reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from slurmfab.cluster.inventory.accounting import DATABASE_PORT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.jupyter import HUB_PORT, PROXY_PORT, SERVER_PORTS
from slurmfab.cluster.inventory.monitoring import CLUSTER
from slurmfab.cluster.inventory.slurm_settings import Place, setting
from slurmfab.cluster.inventory.storage import clients, exports_of
from slurmfab.cluster.slurm.places import slurmdbd_port

PORTS = {"SlurmctldPort": "6817", "SlurmdPort": "6818"}  # Slurm's default ports (slurm.conf(5))

KEYS = {"slurmctld": "SlurmctldPort", "slurmd": "SlurmdPort", "srun": "SrunPortRange"}
"""By who listens, the key of slurm.conf that says where."""

NFS_PORT, SSH_PORT = 2049, 22

MOST_NODES = 256  # the most nodes to which a controller tries to connect at a time


ANYWHERE = (CLUSTER, "0.0.0.0", "::")  # noqa: S104 - compared
"""Where a daemon listens that others reach at its host's own address."""


class Ports(NamedTuple):
    """Ports of a daemon on a host; `first` is `last` for one."""

    daemon: str
    first: int
    last: int

    def __str__(self) -> str:
        """As `6817-6827 of slurmctld`."""
        return f"{self.first}{f'-{self.last}' if self.last > self.first else ''} of {self.daemon}"


class Listener(NamedTuple):
    """Ports of a daemon on a host, and the key of the cluster file that puts them there."""

    ports: Ports
    place: Place  # of the key; that of what brings the daemon where the ports are its default ones


class Target(NamedTuple):
    """An end of a connection."""

    host: str  # the name of the host
    port: int
    daemon: str
    address: str = ""  # at which it listens, where the cluster file gives it one of its own


def port(cluster: Cluster, key: str, node: str = "") -> int:
    """The port, or first of a range, of a daemon in `PORTS`, by the file or by default; slurmd's may be its node's."""
    return _range(cluster, key, node)[0]


def _range(cluster: Cluster, key: str, node: str = "") -> tuple[int, int]:
    own = setting(cluster.settings_of(node), "Port") if node else ""
    # What is no port is refused by a rule of its own.
    found = re.findall(r"\d+", own or setting(cluster.slurm_conf, key)) or [PORTS[key]]
    return int(found[0]), int(found[-1])


def srun_ports(cluster: Cluster) -> tuple[int, int] | None:
    """SrunPortRange, on which srun waits for the nodes of its job; `None` if any port serves."""
    found = re.fullmatch(r"(\d+)-(\d+)", setting(cluster.slurm_conf, "SrunPortRange").strip())
    return (int(found[1]), int(found[2])) if found else None


def of_host(cluster: Cluster, host: str) -> Iterator[Ports]:
    """Yield the ports on which a host listens because of the cluster file, SSH's left out."""
    roles, monitoring, registry = cluster.roles(host), cluster.monitoring, cluster.registry
    if "controller" in roles:
        yield Ports("slurmctld", *_range(cluster, "SlurmctldPort"))
    if "compute" in roles:
        yield Ports("slurmd", *_range(cluster, "SlurmdPort", host))
    if (srun := srun_ports(cluster)) and not cluster.is_for_database_alone(host):
        yield Ports("srun", *srun)
    if cluster.database and host == cluster.database.host:
        number = slurmdbd_port(cluster.slurmdbd_conf)
        yield Ports("slurmdbd", number, number)
        if not cluster.database.external:
            yield Ports("MariaDB", DATABASE_PORT, DATABASE_PORT)
    if exports_of(cluster, host):
        yield Ports("NFS", NFS_PORT, NFS_PORT)
    if monitoring:
        yield Ports("node exporter", monitoring.port, monitoring.port)
    if monitoring and monitoring.prometheus and monitoring.prometheus.host == host:
        yield Ports("Prometheus", monitoring.prometheus.port, monitoring.prometheus.port)
    if registry and registry.host == host:
        numbers = (registry.port, registry.pull_port) if registry.anonymous_pull else (registry.port,)
        yield from (Ports("registry", number, number) for number in numbers)
    yield from _of_notebooks(cluster, host)


def _of_notebooks(cluster: Cluster, host: str) -> Iterator[Ports]:
    """Yield the ports of the hub that servers use, and of servers; that for browsers is everybody's."""
    if cluster.jupyter and cluster.jupyter.host == host:
        yield Ports("JupyterHub", HUB_PORT, HUB_PORT)
    if cluster.jupyter and "compute" in cluster.roles(host):
        yield Ports("notebook servers", *SERVER_PORTS)


def listeners(cluster: Cluster, host: str) -> Iterator[Listener]:
    """Yield all that listens on a host because of the cluster file, also for browsers and for the host itself."""
    group = next((number for number, one in enumerate(cluster.nodes) if host in one.hosts), -1)
    settings = cluster.nodes[group].settings if group >= 0 else {}
    of_node = _key_of(settings, "Port", "nodes", group, "settings")
    places: dict[str, Place] = {
        **{daemon: _key_of(cluster.slurm_conf, key, "slurm_conf") for daemon, key in KEYS.items()},
        **({"slurmd": of_node} if of_node else {}),
        "slurmdbd": _key_of(cluster.slurmdbd_conf, "DbdPort", "slurmdbd_conf") or ("database",),
        "MariaDB": ("database",),
        "NFS": ("exports",),
        "node exporter": ("monitoring", "port"),
        "Prometheus": ("monitoring", "prometheus", "port"),
        "registry": ("registry", "port"),
    }
    own: list[tuple[str, int, Place]] = [
        ("sshd", cluster.ssh.port or SSH_PORT, ("ssh", "port") if cluster.ssh.port else ())
    ]
    if cluster.jupyter and cluster.jupyter.host == host:
        own += [("browsers", cluster.jupyter.port, ("jupyter", "port")), ("JupyterHub's proxy", PROXY_PORT, ())]
    yield from (Listener(Ports(daemon, number, number), place) for daemon, number, place in own)
    yield from (Listener(ports, places.get(ports.daemon, ("jupyter",))) for ports in of_host(cluster, host))


def _key_of(settings: Mapping[str, str | None], key: str, *section: str | int) -> Place:
    """The place of a key as the file spells it; empty if it is not set."""
    spelled = next((name for name, value in settings.items() if value and name.lower() == key.lower()), "")
    return (*section, spelled) if spelled else ()


def ssh_ports(cluster: Cluster, host: str) -> tuple[int, ...]:
    """The ports of a host's sshd, as far as the cluster file tells; 22 may be one of them."""
    place = cluster.ssh.endpoints.get(host, "")
    own = re.search(r":(\d+)$", place)
    return tuple(sorted({SSH_PORT, cluster.ssh.port or SSH_PORT, int(own[1]) if own else SSH_PORT}))


def ring(nodes: Sequence[str], controller: str) -> dict[str, str]:
    """For each compute node the host that connects to its slurmd: another compute node, or else the controller.

    >>> ring(("n1", "n2", "n3"), "ctl"), ring(("n1",), "ctl")
    ({'n1': 'n3', 'n2': 'n1', 'n3': 'n2'}, {'n1': 'ctl'})
    """
    if len(nodes) == 1:
        return {node: controller for node in nodes if node != controller}
    return {node: nodes[place - 1] for place, node in enumerate(nodes)}


def needed(cluster: Cluster, start: str, ring: Mapping[str, str]) -> tuple[Target, ...]:
    """What `start` has to reach on others, each once; `ring` is what connects to each node, beside slurmctld."""
    return tuple(dict.fromkeys(one for one in _needed(cluster, start, ring) if one.host != start))


def _needed(cluster: Cluster, start: str, ring: Mapping[str, str]) -> Iterator[Target]:
    roles, srun, monitoring = cluster.roles(start), srun_ports(cluster), cluster.monitoring
    nodes = [goal for goal, one in ring.items() if one == start]
    nodes += cluster.compute_nodes[:MOST_NODES] if "controller" in roles else ()
    yield from (Target(name, port(cluster, "SlurmctldPort"), "slurmctld") for name in cluster.controllers)
    if cluster.database and {"controller", "login"} & {*roles}:
        yield Target(cluster.database.host, slurmdbd_port(cluster.slurmdbd_conf), "slurmdbd")
    if srun and "compute" in roles:
        yield from (Target(name, srun[0], "srun") for name in (*cluster.controllers[:1], *cluster.login))
    yield from (Target(node, port(cluster, "SlurmdPort", node), "slurmd") for node in nodes)
    for export in cluster.exports:
        if start in clients(cluster, export):
            yield Target(export.host, NFS_PORT, "NFS")
    if cluster.registry:
        yield Target(cluster.registry.host, cluster.registry.port, "registry", cluster.registry.address or "")
    if cluster.jupyter and "compute" in roles:
        yield Target(cluster.jupyter.host, HUB_PORT, "JupyterHub")
    if monitoring and monitoring.prometheus and monitoring.prometheus.host == start:
        for host in cluster.hosts[:MOST_NODES]:
            listens = monitoring.listens_on(host)
            yield Target(host, monitoring.port, "node exporter", "" if listens in ANYWHERE else listens)
