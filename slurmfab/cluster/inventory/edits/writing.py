"""Make a cluster file, and add nodes to an existing one, of which only the bytes change that must."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from slurmfab.base import atomic_file, hostlist
from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.yaml_text import Edits, yaml_text
from slurmfab.cluster.inventory.yaml_nodes import compose

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster, Partition, Ssh
    from slurmfab.cluster.inventory.slurm_packages import SlurmPackages

_WHERE = "the cluster file"
_NOTHING: Mapping[str, str] = {}

HEAD = """\
# A Slurm cluster that slurmfab deploys: change this file, check the changes with `fab plan`, then run `fab deploy`.
# Keys in snake_case are slurmfab's; keys in CamelCase are Slurm's own, spelled as in slurm.conf(5).
# The lock beside this file has what was discovered on the hosts. docs/cluster-file.md explains every key.
"""
"""The first lines of a cluster file."""

SSH = "# How SSH reaches the hosts; other values come from ~/.ssh/config."
_NO_SSH = "# ssh: {user: admin, key: ~/.ssh/id_ed25519, become: sudo, gateway: admin@bastion}"
_ADDRESSES = "# Hosts and their addresses; two hostlists of the same length are paired."
_CONTROLLERS = "# The hosts of slurmctld."
_NODES = "# Compute nodes in groups; hardware that is not given here is discovered once and recorded in the lock."
_NODE_HINT = """\
    # Feature: bigmem
    # Weight: 10
"""
_TAIL = """\
partitions:
  - PartitionName: main
    Nodes: ALL
    Default: YES
    # MaxTime: 7-00:00:00

# Any other key of slurm.conf; null drops a line that slurmfab would write.
# slurm_conf:
#   SlurmdTimeout: 300
"""


def new_text(name: str, ssh: Ssh, addresses: Mapping[str, str], controller: str, compute: Sequence[str]) -> str:
    """Make the annotated file of first contact, with addresses of names that do not resolve; or ClusterFileError."""
    values = ssh.model_dump(exclude_none=True, exclude={"endpoints", "networks", "relays"})
    parts = [
        HEAD + f"cluster: {yaml_text(name)}\n",
        ssh_section(values, ssh.endpoints) or f"{SSH}\n{_NO_SSH}\n",
        *filter(None, [addresses_section(addresses)]),
        f"{_CONTROLLERS}\ncontrollers: [{yaml_text(controller, in_flow=True)}]\n",
        f"{_NODES}\nnodes:\n  - hosts: {yaml_text(hostlist.fold(compute))}\n{_NODE_HINT}",
        _TAIL,
    ]
    text = "\n".join(parts)
    loading.parse(text, _WHERE)
    return text


def with_nodes(
    text: str,
    hosts: Sequence[str],
    addresses: Mapping[str, str],
    settings: Mapping[str, str] = _NOTHING,
    like: str | None = None,
    *,
    endpoints: Mapping[str, str] = _NOTHING,
    partitions: Sequence[str] = (),
) -> str:
    """Add compute nodes to the text of a cluster file, and change nothing else.

    They join the group with the same settings, or make a new one; and the given partitions, and those of `like`, an
    existing node whose settings yield to `settings`. `addresses`: for names that do not resolve. `endpoints`: see
    `Ssh.endpoints`. Raises ClusterFileError of the text, an address or a setting; InputError if hosts exist, or the
    text is not safe to edit.
    """
    old = loading.parse(text, _WHERE)
    _check_new(old, hosts, like)
    wanted = {**(old.settings_of(like) if like else {}), **settings}
    places = {host: addresses[host] for host in hosts if host in addresses}
    ways = {host: endpoints[host] for host in hosts if host in endpoints}
    joined = _joined_partitions(old, partitions, like)
    edits = Edits(text)
    root = compose(text, _WHERE)
    _add_endpoints(edits, root, ways)
    add_addresses(edits, root, places)
    _add_hosts(edits, root, hosts, wanted, _group(old, wanted, like))
    entries: Any = _value_of(root, "partitions") if joined else None
    for number in joined:
        in_flow = bool(root.flow_style or entries.flow_style or entries.value[number].flow_style)
        _extend(edits, _value_of(entries.value[number], "Nodes"), hosts, in_flow)
    slurm = old.slurm_of(like) if like else old.slurm
    return _checked(edits.applied(), old, dict.fromkeys(hosts, wanted), slurm, (places, ways, joined))


def write(path: Path, text: str) -> None:
    """Write a cluster file atomically, unless it has this text already; InputError if it cannot be written."""
    atomic_file.write(path, text, new=atomic_file.READABLE_BY_ALL, through_link=path.exists())


def ssh_section(values: Mapping[str, object], endpoints: Mapping[str, str]) -> str:
    """How SSH reaches the hosts; empty where nothing is said of it."""
    lines = [f"  {key}: {yaml_text(str(value))}" for key, value in values.items() if value is not None]
    if endpoints:
        lines += ["  endpoints:", *_pairs(endpoints, "    ")]
    return "\n".join([SSH, "ssh:", *lines]) + "\n" if lines else ""


def addresses_section(addresses: Mapping[str, str]) -> str:
    """The addresses by host; empty for none."""
    return "\n".join([_ADDRESSES, "addresses:", *_pairs(addresses, "  ")]) + "\n" if addresses else ""


def _pairs(mapping: Mapping[str, str], indent: str) -> list[str]:
    """Lines of a mapping with host names as keys, folded where that is exact."""
    return [
        f"{indent}{yaml_text(names)}: {yaml_text(places)}" for names, places in hostlist.zip_fold(list(mapping.items()))
    ]


def _check_new(cluster: Cluster, hosts: Sequence[str], like: str | None) -> None:
    """Refuse hosts that are already in the cluster, and an unknown `like`."""
    if not hosts:
        raise InputError("No hosts to add were named. Name them as a hostlist, as in n[6-9].")
    known = [host for host in hosts if host in cluster.hosts]
    if known:
        verb = "is" if len(known) == 1 else "are"
        raise InputError(f"{hostlist.fold(known)} {verb} already in the cluster. `{FAB} deploy` updates its hosts.")
    if like is not None and like not in cluster.compute_nodes:
        raise InputError(f"{like} is not a compute node, so a new node cannot be like it.")


def _group(cluster: Cluster, wanted: Mapping[str, str], like: str | None) -> int | None:
    """The number of a group with these settings, preferably that of `like`; `None` if there is none."""
    same = (wanted, *((cluster.mig_of(like), cluster.slurm_of(like)) if like else (None, cluster.slurm)))
    groups = enumerate(cluster.nodes)
    fitting = [number for number, one in groups if (one.settings, one.mig, one.slurm or cluster.slurm) == same]
    of_like = [number for number in fitting if like in cluster.nodes[number].hosts]
    return next(iter(of_like or fitting[-1:]), None)


def _add_hosts(
    edits: Edits, root: MappingNode, hosts: Sequence[str], wanted: Mapping[str, str], group: int | None
) -> None:
    """Add hosts to the group with this number; to a new group if it is `None` or cannot be extended."""
    nodes = _value_of(root, "nodes")
    assert isinstance(nodes, SequenceNode)
    in_flow = bool(root.flow_style or nodes.flow_style)
    if group is not None:
        value = _value_of(nodes.value[group], "hosts")
        if _extend(edits, value, hosts, in_flow or bool(nodes.value[group].flow_style)):
            return
    edits.append_mapping(nodes, {"hosts": hostlist.fold(hosts), **wanted}, in_flow)


def _extend(edits: Edits, value: Node, hosts: Sequence[str], in_flow: bool) -> bool:
    """Add hosts to a hostlist or a list of hostlists; returns whether that was possible."""
    if isinstance(value, SequenceNode) and not value.value:
        edits.fill_list(value, hostlist.fold(hosts))
    elif isinstance(value, SequenceNode) and all(isinstance(item, ScalarNode) for item in value.value):
        _extend_list(edits, value, hosts, in_flow)
    elif isinstance(value, ScalarNode) and edits.is_one_line(value):
        edits.replace_scalar(value, ",".join(hostlist.extend(hostlist.entries(value.value), hosts)), in_flow)
    else:
        return False
    return True


def _joined_partitions(cluster: Cluster, names: Sequence[str], like: str | None) -> tuple[int, ...]:
    """The numbers of the partitions that get the new nodes."""
    known = [partition.name for partition in cluster.partitions]
    strangers = [name for name in names if name not in known]
    if strangers:
        raise InputError(f"{', '.join(strangers)}: not a partition of this cluster (known: {', '.join(known)}).")
    return tuple(
        number
        for number, partition in enumerate(cluster.partitions)
        if partition.nodes != "ALL" and (partition.name in names or like in partition.nodes)
    )


def _extend_list(edits: Edits, items: SequenceNode, hosts: Sequence[str], in_flow: bool) -> None:
    """Add hosts to a list of hostlists: hosts that continue a range extend it, others become new entries."""
    in_flow = in_flow or bool(items.flow_style)
    ranges = [item for item in items.value if "[" in item.value and len(hostlist.entries(item.value)) == 1]
    extended = hostlist.extend([item.value for item in ranges], hosts)
    for item, longer in zip(ranges, extended, strict=False):
        if longer != item.value:
            edits.replace_scalar(item, longer, in_flow)
    edits.append_items(items, extended[len(ranges) :], in_flow)


def add_addresses(edits: Edits, root: MappingNode, addresses: Mapping[str, str]) -> None:
    """Add addresses to the section `addresses`, or make it after the section `ssh`. `addresses`: address by host."""
    sections = {key.value: (key, value) for key, value in root.value}
    pairs = dict(hostlist.zip_fold(list(addresses.items())))
    if "addresses" in sections and pairs:
        edits.append_pairs(sections["addresses"], pairs, bool(root.flow_style))
    elif pairs:
        edits.insert_section(root, "ssh" if "ssh" in sections else "cluster", "addresses", pairs)


def _add_endpoints(edits: Edits, root: MappingNode, endpoints: Mapping[str, str]) -> None:
    """Add endpoints to the section `ssh`."""
    sections = {key.value: (key, value) for key, value in root.value}
    pairs = dict(hostlist.zip_fold(list(endpoints.items())))
    if not pairs:
        return
    if "ssh" not in sections:
        edits.insert_section(root, "cluster", "ssh", {"endpoints": pairs})
        return
    ssh = sections["ssh"][1]
    inside = {key.value: (key, value) for key, value in ssh.value} if ssh.id == "mapping" else {}
    if "endpoints" in inside:
        edits.append_pairs(inside["endpoints"], pairs, bool(root.flow_style or ssh.flow_style))
    else:
        edits.append_pairs(sections["ssh"], {"endpoints": pairs}, bool(root.flow_style))


def _value_of(mapping: MappingNode, key: str) -> Node:
    """The value of a key that exists."""
    values: dict[str, Node] = {name.value: value for name, value in mapping.value}
    return values[key]


def _checked(
    text: str,
    old: Cluster,
    nodes: Mapping[str, Mapping[str, str]],
    slurm: SlurmPackages,
    where: tuple[Mapping[str, str], Mapping[str, str], Sequence[int]],
) -> str:
    """Check that the new text describes the old cluster with these nodes and no other difference, and return it."""
    addresses, endpoints, joined = where
    rest: dict[str, Any] = {"nodes": True, "addresses": True, "ssh": {"endpoints": True}, "partitions": True}
    unsafe = InputError(
        f"{_WHERE} is written in a way that cannot be extended safely; nothing was changed. "
        f"Add {hostlist.fold(nodes)} to nodes (and addresses) by hand, then run `{FAB} deploy`."
    )
    try:
        compose(text, _WHERE)
    except ClusterFileError as error:
        raise unsafe from error
    new = loading.parse(text, _WHERE)
    partitions = [
        one.model_copy(update={"nodes": (*one.nodes, *nodes)}) if number in joined else one
        for number, one in enumerate(old.partitions)
    ]
    is_extended = (
        {node: new.settings_of(node) for node in new.compute_nodes}
        == {**{node: old.settings_of(node) for node in old.compute_nodes}, **nodes}
        and {new.slurm_of(node) for node in nodes} == {slurm}
        and new.addresses == {**old.addresses, **addresses}
        and new.ssh.endpoints == {**old.ssh.endpoints, **endpoints}
        and [_in_any_order(partition) for partition in new.partitions] == [_in_any_order(one) for one in partitions]
        and new.model_dump(exclude=rest) == old.model_dump(exclude=rest)
    )
    if not is_extended:
        raise unsafe
    return text


def _in_any_order(partition: Partition) -> Partition:
    """A partition with sorted nodes, for a comparison without regard to their order."""
    nodes = partition.nodes
    return partition if nodes == "ALL" else partition.model_copy(update={"nodes": tuple(sorted(nodes))})
