"""The twin of a cluster as values: which hosts it has, the lab that they are, and its cluster file; pure functions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import expand, fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock, text_of
from slurmfab.cluster.inventory.mounts import BIND
from slurmfab.cluster.slurm import platform
from slurmfab.cluster.slurm.node import Kind, Node
from slurmfab.cluster.slurm.node_lines import node_settings
from slurmfab.lab.spec import (
    CONTROLLER,
    ENTERPRISE_LINUX,
    MOST_NODES,
    SUITES,
    UNDER_ENTERPRISE_LINUX,
    Lab,
    LabSpec,
    suite_with,
)

PER_KIND = 2  # nodes of each kind that the twin has
SHARED = "/srv/slurmfab-twin"  # directory that all hosts of a twin share
EXTERNAL = frozenset({"external", "password_file", "keep_password"})  # keys about a database server elsewhere
DEFAULT_USER = "slurm"
MOST_GPUS = 16  # of one host of a lab
NEWER_SLURM = "file:/srv/newer-slurm"  # the package source of lab hosts that have a newer Slurm

LEFT_OUT: Mapping[str, str] = {
    "directory": "the directory server (directory) is not asked: its users are not there",
    "power": "no machine is switched off and on (power)",
    "mail": "no mail leaves the twin (mail)",
    "exports": "directories of file servers are directories that the twin's hosts share (exports)",
    "quota": "quotas of file servers are not set (quota)",
    "firewall": "no rules of a firewall are set (firewall)",
    "drift": "no drift timer is set up (drift)",
    "registry": "no image is pulled (registry)",
}
"""Keys of a cluster file that the twin does not have, each with what the rehearsal cannot tell for that."""

ALWAYS_UNKNOWN = (
    "hardware: CPUs, memory and disks are this machine's, and GPUs are stand-ins",
    "networks: speed, switches, firewalls between hosts, ports below 1024, which all users may open there",
)
"""What no rehearsal can tell."""

CONSTRAIN_DEVICES = "ConstrainDevices"
"""A key of cgroup.conf: the kernel lets no host of a twin close devices to a job, so that jobs with GPUs would fail."""

BY_NODES = ("prolog", "epilog")  # keys whose value may have hostlists of compute nodes as keys

_FLAT = ("nodes", "future_nodes", "partitions", "qos", "accounts", "users")
"""Lists whose entries have Slurm's keys beside others."""


@dataclass(frozen=True)
class Twin:
    """Which hosts of a cluster its twin has, and as what they run on this machine."""

    hosts: Mapping[str, str]  # the name in the lab, such as `n1`, by the name in the cluster file
    standing_for: Mapping[str, tuple[str, ...]]  # by compute node of the twin, the nodes of its kind that it lacks
    spec: LabSpec
    unknown: tuple[str, ...]  # what the rehearsal cannot tell, for people
    sources: tuple[str, ...] = ()  # addresses of the package sources that the cluster files name
    addresses: Mapping[str, str] = field(default_factory=dict)  # of its hosts, once the lab is up
    ssh_key: str = ""  # path of the private key for them


def selected(cluster: Cluster, lock: Lock, wanted: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """The compute nodes of a twin, some of each kind and of each partition, with those of a kind that are left out.

    `wanted`: hosts that the twin has to have, because the command names them.
    """
    kinds: dict[object, list[str]] = {}
    for number, group in enumerate(cluster.nodes):
        for host in group.hosts:
            known = lock.hosts.get(host, HostLock())
            kinds.setdefault((number, known.hardware, tuple(gpu.type for gpu in known.gpus)), []).append(host)
    serving = (*wanted, *serving_nodes(cluster))
    needed = {host for host in cluster.compute_nodes if host in serving or cluster.roles(host) != ("compute",)}
    chosen = needed | {host for some in kinds.values() for host in some[:PER_KIND]}
    for partition in cluster.partitions:
        if partition.nodes != "ALL" and partition.nodes and not chosen & set(partition.nodes):
            chosen.add(partition.nodes[0])
    found = {}
    for some in kinds.values():
        there = [host for host in some if host in chosen]
        for host in there:
            found[host] = tuple(one for one in some if one not in chosen) if host == there[0] else ()
    return found


def serving_nodes(cluster: Cluster) -> Iterator[str]:
    """Yield the hosts that a key names by themselves, perhaps compute nodes: the cluster file needs them."""
    if cluster.monitoring and cluster.monitoring.prometheus:
        yield cluster.monitoring.prometheus.host


@dataclass(frozen=True)
class Chosen:
    """Which hosts of a cluster its twin has."""

    hosts: Mapping[str, str]  # the name in the lab by the name in the cluster file
    standing_for: Mapping[str, tuple[str, ...]]  # by compute node of the twin, the nodes of its kind that it lacks


def choose(versions: Iterable[tuple[Cluster, Lock]], wanted: Collection[str] = ()) -> Chosen:
    """The hosts of the twin of a cluster as it is deployed and as it shall be. Raises InputError for too many.

    `versions`: the cluster before and after the change, each with its lock. `wanted`: hosts that the twin has to have.
    """
    some = tuple(versions)
    nodes = {host: left for cluster, lock in some for host, left in selected(cluster, lock, wanted).items()}
    services = [host for cluster, _ in some for host in cluster.hosts if cluster.roles(host) != ("compute",)]
    controller = some[-1][0].controller
    others = tuple(host for host in dict.fromkeys((*services, *nodes)) if host != controller)
    if len(others) > MOST_NODES:
        raise InputError(f"The twin would have {len(others) + 1} hosts, and a lab has at most {MOST_NODES + 1}.")
    hosts = {controller: CONTROLLER, **{host: f"n{number}" for host, number in zip(others, count(1))}}
    return Chosen(hosts, nodes)


def make(name: str, chosen: Chosen, versions: Iterable[tuple[Cluster, Lock]], codename: str) -> Twin:
    """The twin with these hosts. Raises InputError if the lab has no such hosts.

    `name`: name of its lab. `versions`: as for `choose`. `codename`: of the controller's distribution, as os-release(5)
    has it; empty if it is not known.
    """
    some, hosts, nodes = tuple(versions), chosen.hosts, chosen.standing_for
    cluster, lock = some[-1]
    spec = LabSpec(
        name=name,
        suite=suite_of(some[0][0], lock, codename),
        nodes=max(1, len(hosts) - 1),
        gpus=tuple(stand_ins(hosts, lock)),
        shared=outermost(place for one, _ in some for place in shared_places(one)),
        slurm_packages=some[0][0].slurm.packages,
        other_packages=tuple(other_packages(some[0][0], hosts)),
        newer_slurm=any(NEWER_SLURM in uris(one) for one, _ in some),
        hostnames=tuple(f"{inner}:{hostname(host, lock)}" for host, inner in hosts.items()),
        private_users=True,
    )
    missing = [host for left in nodes.values() for host in left]
    fewer = [f"how jobs run on more nodes than it has: {fold(missing)} are in its slurm.conf alone"] if missing else []
    held = [f"whether jobs are held to their GPUs: the twin has {CONSTRAIN_DEVICES}=no"] if spec.gpus else []
    unknown = (*ALWAYS_UNKNOWN, *fewer, *held, *dict.fromkeys(text for one, _ in some for text in cannot_tell(one)))
    sources = tuple(uri for one, _ in some for uri in uris(one))
    return Twin(hosts, nodes, with_packages(spec, cluster, hosts), unknown, sources)


def refuse_without_twin(versions: Iterable[Cluster]) -> None:
    """Refuse, by InputError, a cluster whose twin would lack what the site has made itself."""
    for cluster in versions:
        if cluster.keep_files:
            raise InputError(
                "A twin of this cluster cannot be made: Slurm's files on its hosts are the site's (keep_files), and no "
                "deployment writes them. Nothing was started."
            )
        if cluster.slurm_user != DEFAULT_USER:
            raise InputError(
                f"A twin of this cluster cannot be made: the user {cluster.slurm_user} (slurm_user), and what the "
                "daemons' units say of it, are the site's. Nothing was started."
            )


def suite_of(cluster: Cluster, lock: Lock, codename: str) -> str:
    """The suite of the twin's hosts. Raises InputError if the lab has no such hosts."""
    if cluster.slurm.packages in ENTERPRISE_LINUX:
        return UNDER_ENTERPRISE_LINUX
    found = codename or suite_with(".".join(lock.slurm.split(".")[:2]))
    if found not in SUITES or cluster.slurm.packages == "none":
        raise InputError(
            f"A twin of this cluster cannot be made: its hosts have {found or 'an unknown distribution'} and packages "
            f"of Slurm: {cluster.slurm.packages}. The lab has {', '.join(SUITES)}."
        )
    return found


def uris(cluster: Cluster) -> tuple[str, ...]:
    """The addresses of the package sources that a cluster file names."""
    return tuple(uri for one in cluster.slurms if one.given for uri in one.given.uris)


def other_packages(cluster: Cluster, hosts: Mapping[str, str]) -> Iterator[str]:
    """Yield the hosts with another kind of Slurm's packages than the cluster, as the lab's specification has them."""
    for host, inner in hosts.items():
        kind = cluster.slurm_of(host).packages
        if kind != cluster.slurm.packages:
            yield f"{inner}:{kind}"


def hostname(host: str, lock: Lock) -> str:
    """The name by which a host calls itself."""
    return lock.hosts.get(host, HostLock()).hostname or host.partition(".")[0]


def stand_ins(hosts: Mapping[str, str], lock: Lock) -> Iterator[str]:
    """Yield the stand-ins for the GPUs of hosts, as the lab's specification has them; a divided GPU is one."""
    for host, inner in hosts.items():
        gpus = {gpu.file: gpu.type for gpu in lock.hosts.get(host, HostLock()).gpus if "nvidia" in gpu.file}
        types = [kind.partition("_")[0] for kind in gpus.values()][:MOST_GPUS]
        for kind in dict.fromkeys(types):
            yield f"{inner}:{types.count(kind)}" + (f":{kind}" if kind else "")


def mount_points(cluster: Cluster) -> dict[str, str]:
    """Where the twin's hosts mount directories of this machine in place of file servers, each with the source."""
    paths = [one.path for one in cluster.mounts if one.type != BIND]
    paths += [one.mount for one in cluster.exports if one.mount]
    return {path: f"{SHARED}{path}" for path in paths}


def outermost(places: Iterable[str]) -> tuple[str, ...]:
    """The directories that are in no other one: what is inside of a shared one is shared with it."""
    found = tuple(dict.fromkeys(places))
    return tuple(one for one in found if not any(one.startswith(f"{other}/") for other in found))


def shared_places(cluster: Cluster) -> Iterator[str]:
    """Yield the directories that the twin's hosts share: in place of file servers, and where Slurm's files need one."""
    places = mount_points(cluster)
    yield from places.values()
    for path in places_of_site(cluster):
        if not any(is_below(path, mounted) for mounted in places):
            yield path


def places_of_site(cluster: Cluster) -> tuple[str, ...]:
    """Directories that the cluster file needs on a file system of all hosts, by whomever that is mounted."""
    state = cluster.state_directory if len(cluster.controllers) > 1 else None
    return tuple(filter(None, (state, cluster.slurm_conf_directory)))


def is_below(path: str, above: str) -> bool:
    """Whether a path is this directory, or inside it."""
    return path == above or path.startswith(f"{above.rstrip('/')}/")


def with_packages(spec: LabSpec, cluster: Cluster, hosts: Mapping[str, str]) -> LabSpec:
    """The lab with Slurm's packages on its hosts, so that a deployment does not install them one by one."""
    entries = []
    for host, inner in hosts.items():
        if not cluster.slurm_of(host).is_default:
            continue
        kind = platform.wanted(cluster, host)
        names = [name for role in cluster.roles(host) for name in kind.packages(role)]
        names += kind.database.packages if host in cluster.database_hosts else ()
        entries += [f"{inner}:{','.join(dict.fromkeys(names))}"] if names else []
    return replace(spec, packages=tuple(entries))


def cannot_tell(cluster: Cluster) -> Iterator[str]:
    """Yield what the rehearsal of this cluster cannot tell, because the twin lacks it."""
    yield from (text for key, text in LEFT_OUT.items() if getattr(cluster, key))
    if places := [*(one.path for one in cluster.mounts if one.type != BIND), *places_of_site(cluster)]:
        paths = ", ".join(dict.fromkeys(places))
        yield f"real file servers: directories of this machine stand in for {paths}"
    if cluster.database and cluster.database.external:
        yield f"the database server {cluster.database.external}: the twin has one of its own"
    if cluster.ssh.gateway or cluster.ssh.relays:
        yield "the way to the hosts: jump hosts and relays are left out"


def file_text(shape: Mapping[str, Any], cluster: Cluster, lock: Lock, twin: Twin) -> str:
    """The text of the twin's cluster file (JSON, which is YAML as well).

    `shape`: the values of the real one, as `reading.read` has them. `cluster`: the same as a model. `lock`: its lock.
    """
    there = [host for host in cluster.hosts if host in twin.hosts]
    flat = {key: [flattened(one) for one in shape.get(key, ())] for key in _FLAT if key in shape}
    values = {**shape, **flat}
    for key in LEFT_OUT:
        values.pop(key, None)
    places = mount_points(cluster)
    others = [one for one in values.get("mounts") or () if one.get("path") not in places]
    own: dict[str, Any] = {
        "mounts": [*({"path": path, "source": place, "type": BIND} for path, place in places.items()), *others],
        "ssh": {"user": "root", "key": twin.ssh_key},
        "addresses": {host: twin.addresses[host] for host in there},
        **{key: hosts_of(values[key], there) for key in ("controllers", "login") if key in values},
        "nodes": list(limited(values["nodes"], "hosts", there)),
        "future_nodes": [*left_nodes(cluster, lock, there), *values.get("future_nodes", ())],
    }
    values |= own
    if twin.spec.gpus:
        given = (values.get("cgroup_conf") or {}).items()
        limits = {key: value for key, value in given if key.lower() != CONSTRAIN_DEVICES.lower()}
        values["cgroup_conf"] = {**limits, CONSTRAIN_DEVICES: "no"}
    for key in BY_NODES:
        if isinstance(values.get(key), dict):
            pairs = ((hosts_of(hosts, there), place) for hosts, place in values[key].items())
            values[key] = {hosts: place for hosts, place in pairs if hosts} or None
    values = {key: value for key, value in values.items() if value is not None}
    if isinstance(values.get("database"), dict):
        values["database"] = {key: value for key, value in values["database"].items() if key not in EXTERNAL}
    return json.dumps(with_hosts(values, there, top=True), indent=1) + "\n"


def left_nodes(cluster: Cluster, lock: Lock, there: Collection[str]) -> Iterator[Mapping[str, str]]:
    """Yield the compute nodes that the twin lacks, in groups, with the settings that their lines in slurm.conf have."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    known: dict[Kind, tuple[tuple[str, str], ...]] = {}
    for host in (one for one in cluster.compute_nodes if one not in there):
        about, scratch = lock.hosts.get(host, HostLock()), cluster.scratch.of_node(host) if cluster.scratch else 0
        node = Node(host, host, host, about.hardware, about.gpus, cluster.settings_of(host), scratch)
        if node.kind not in known:
            known[node.kind] = tuple(node_settings(node, cluster.memory_margin).items())
        groups.setdefault(known[node.kind], []).append(host)
    for settings, hosts in groups.items():
        yield {"hosts": fold(hosts), **{key: value for key, value in settings if key != "State"}}


def flattened(entry: Any) -> Any:
    """An entry with Slurm's keys beside the others, as the file has them."""
    if not isinstance(entry, dict):
        return entry
    return {**{key: value for key, value in entry.items() if key != "settings"}, **entry.get("settings", {})}


def hosts_of(given: Any, there: Collection[str]) -> str | list[str]:
    """A hostlist, or a list of them, without hosts that the twin lacks."""
    texts = given if isinstance(given, list) else [given]
    kept = [host for text in texts if text for host in expand(str(text)) if host in there]
    return fold(kept) if kept else []


def limited(entries: Iterable[Any], key: str, there: Collection[str]) -> Iterator[Any]:
    """Yield entries with hosts, without those that the twin lacks; an entry that keeps no host is left out."""
    for entry in entries:
        kept = hosts_of(entry.get(key, ""), there)
        if kept:
            yield entry | {key: kept}


def with_hosts(values: Any, there: Collection[str], *, top: bool = False) -> Any:
    """Values whose keys `hosts`, of files, packages and other groups, name hosts of the twin alone."""
    if isinstance(values, dict):
        return {key: value if top and key in (*_FLAT, "database") else with_hosts_under(key, value, there)
                for key, value in values.items()}  # fmt: skip
    if isinstance(values, list):
        return [with_hosts(one, there) for one in values if not is_without_hosts(one, there)]
    return values


def with_hosts_under(key: str, value: Any, there: Collection[str]) -> Any:
    """The value of a key: a hostlist of the twin's hosts, or what has such lists in it."""
    if key == "hosts" and isinstance(value, (str, list)):
        return hosts_of(value, there)
    return with_hosts(value, there)


def is_without_hosts(entry: Any, there: Collection[str]) -> bool:
    """Whether an entry of a list is about hosts of which the twin has none."""
    return (
        isinstance(entry, dict) and isinstance(entry.get("hosts"), (str, list)) and not hosts_of(entry["hosts"], there)
    )


def lock_text(lock: Lock, twin: Twin, lab: Lab) -> str:
    """The text of the twin's lock: the numbers of users and whose archives are trusted, and its hosts' SSH keys."""
    keys = {host: HostLock(host_keys=dict(lab.host(inner).host_keys)) for host, inner in twin.hosts.items()}
    return text_of(Lock(ids=lock.ids, bundles=lock.bundles, signers=lock.signers, hosts=keys))


def placed(twin: Twin, lab: Lab) -> Twin:
    """The twin with the addresses of its hosts."""
    addresses = {host: lab.host(inner).address for host, inner in twin.hosts.items()}
    return replace(twin, addresses=addresses, ssh_key=str(lab.ssh_key))
