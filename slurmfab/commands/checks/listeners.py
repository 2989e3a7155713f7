"""Where the daemons of slurmfab's listen on a host, whatever their packages' units ask for, and where they may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurmfab.base.ip_addresses import IPV6, NO_ADDRESS, canonical, family
from slurmfab.base.paths import JUPYTER_UNIT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.jupyter import EVERYWHERE, HUB_PORT, PROXY_PORT
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.inventory.monitoring import CLUSTER
from slurmfab.cluster.inventory.ports import of_host
from slurmfab.cluster.slurm.software import JUPYTERHUB, NODE_EXPORTER, PROMETHEUS

ANY = ("*",)  # any address of the host
LOOPBACK = ("127.0.0.1", "::1")
WITH_JOBS = "slurmd.service"  # where processes of jobs are with control groups of version 1
UNITS = ("slurmctld", "slurmd", "slurmdbd")
PULL_UNIT = "slurmfab-registry-pull"
PAIR = 2  # words in a line that ps(1) prints

ASK = (
    "systemctl show --property=MainPID --value slurmd; echo; ss -Hlntup; echo; ps -eo pid=,unit=; echo; "
    "systemctl list-sockets --no-legend --no-pager --full"
)
LISTENS = re.compile(r"^(tcp|udp)\s+\S+\s+\S+\s+\S+\s+(\S+):(\d+)\s+\S+\s+users:(\S.*)$", re.MULTILINE)
"""A line of ss(8): protocol, address, port, and the processes."""

PROCESS = re.compile(r'\(".{0,15}",pid=(\d+),fd=\d+\)')
"""One of these processes, with its number. Its name, of up to 15 bytes, may look like the end of another one."""

FOR_ANOTHER = re.compile(r"^(\S+):(\d+)\s+\S+\.socket\s+(\S+?)(?:@\S*)?\.service\b", re.MULTILINE)
"""A line of systemctl(1): address and port at which systemd listens for a unit that it starts then, and that unit."""


class Place(NamedTuple):
    """A port, or several, at which a daemon may listen."""

    unit: str
    addresses: tuple[str, ...]
    first: int = 0
    last: int = -1  # by default, there is none


class Listener(NamedTuple):
    """A port at which a process of a unit listens."""

    unit: str
    protocol: str
    address: str  # `*` for all
    port: int

    def is_at(self, place: Place) -> bool:
        """Whether a place allows it."""
        is_there = place.addresses == ANY or self.address in map(canonical, place.addresses)
        return (
            self.unit == place.unit and self.protocol == "tcp" and place.first <= self.port <= place.last and is_there
        )

    def __str__(self) -> str:
        """As `slurmrestd on *:6820`."""
        address = f"[{self.address}]" if family(self.address) == IPV6 else self.address
        return f"{self.unit} on {address}:{self.port}"


def places(cluster: Cluster, lock: Lock, host: str) -> Iterator[Place]:
    """Yield where daemons of slurmfab's may listen on a host; a unit without a port listens on no network at all."""

    def own(named: str = "") -> tuple[str, ...]:
        """The addresses of which a daemon may listen on one: the one named for it, the file's, or the host's."""
        if named in EVERYWHERE:
            return ANY
        address = named if named not in ("", CLUSTER) else cluster.addresses.get(host, "")
        return (address,) if family(address) != NO_ADDRESS else lock.hosts.get(host, HostLock()).addresses

    yield from (Place(unit, ()) for unit in ("munge", "sackd", "slurmrestd", *UNITS, JUPYTER_UNIT, PULL_UNIT))
    if cluster.jupyter and (host == cluster.jupyter.host or "compute" in cluster.roles(host)):
        yield Place(JUPYTERHUB, ())  # the package's own unit, a hub of root's at every address
    # Others reach Slurm's daemons at any address of their host, and the database at none.
    at = {**dict.fromkeys(UNITS, ANY), "mariadb": LOOPBACK}
    known = [(ports.daemon.lower(), ports) for ports in of_host(cluster, host)]
    yield from (Place(unit, at[unit], ports.first, ports.last) for unit, ports in known if unit in at)
    registry, jupyter, monitoring = cluster.registry, cluster.jupyter, cluster.monitoring
    if registry and registry.host == host:
        yield Place("docker-registry", own(registry.address or ""), registry.port, registry.port)
        if registry.anonymous_pull:
            yield Place(PULL_UNIT, own(registry.address or ""), registry.pull_port, registry.pull_port)
    if jupyter and jupyter.host == host:
        yield Place(JUPYTER_UNIT, own(jupyter.address or ""), jupyter.port, jupyter.port)
        yield Place(JUPYTER_UNIT, own(), HUB_PORT, HUB_PORT)
        yield Place(JUPYTER_UNIT, LOOPBACK, PROXY_PORT, PROXY_PORT)
    if monitoring:
        yield Place(NODE_EXPORTER, own(monitoring.listens_on(host)), monitoring.port, monitoring.port)
        if monitoring.prometheus and monitoring.prometheus.host == host:
            yield Place(
                PROMETHEUS, own(monitoring.prometheus.listen), monitoring.prometheus.port, monitoring.prometheus.port
            )


def misplaced(cluster: Cluster, lock: Lock, host: str, shown: str) -> tuple[Listener, ...]:
    """The ports at which daemons of slurmfab's listen and may not. `shown`: what ASK prints on the host."""
    allowed = tuple(places(cluster, lock, host))
    ours = {one.unit for one in allowed}
    return tuple(one for one in listeners(shown) if one.unit in ours and not any(one.is_at(place) for place in allowed))


def listeners(shown: str) -> tuple[Listener, ...]:
    """The ports at which processes of units listen, each once, without those of jobs."""
    slurmd, sockets, processes, waiting = [*shown.split("\n\n"), "", "", ""][:4]
    pairs = (pair for line in processes.splitlines() if len(pair := line.split()) == PAIR)
    units = {pid: unit.removesuffix(".service") for pid, unit in pairs if unit != WITH_JOBS or pid == slurmd}
    started = {(plain(address), port): unit for address, port, unit in FOR_ANOTHER.findall(waiting)}
    found = []
    for protocol, address, port, users in LISTENS.findall(sockets):
        numbers = PROCESS.findall(users)
        at = started.get((plain(address), port), "") if numbers[:1] == ["1"] else ""
        unit = at or next((units[one] for one in numbers if one in units), "")
        found.append(Listener(unit, protocol, plain(address), int(port)))
    return tuple(dict.fromkeys(found))


def plain(address: str) -> str:
    """An address as ss(8) shows it, without brackets and interface; `*` for all of a family."""
    bare = address.partition("%")[0].strip("[]")
    return "*" if bare in ("", "*", *EVERYWHERE) else canonical(bare)
