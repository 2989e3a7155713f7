"""Making a cluster file, and adding nodes to one that people have edited since.

A file is never written anew from the models: the text is changed at the places that must change, and no other byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmfab import atomic_file, hostlist, inventory
from slurmfab.clusterfile import reading
from slurmfab.clusterfile.edits import Edits, yaml_text
from slurmfab.errors import ClusterFileError, InputError

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

    from slurmfab.cluster import Cluster, Partition, Ssh

_WHERE = "the cluster file"
_NOTHING: Mapping[str, str] = {}

_HEAD = """\
# A Slurm cluster, as slurmfab shall make it: change this file, look at `fab plan`, then run `fab deploy`.
# Keys in snake_case are slurmfab's; keys in CamelCase are Slurm's own, spelled as in slurm.conf(5).
# What was discovered of the hosts lies in the lock beside this file. docs/cluster-file.md explains every key.
"""
_SSH = "# How SSH reaches the hosts; what is not said here comes from ~/.ssh/config."
_NO_SSH = "# ssh: {user: admin, key: ~/.ssh/id_ed25519, become: sudo, gateway: admin@bastion}"
_ADDRESSES = "# Hosts and their addresses; two hostlists of one length stand for pairs."
_CONTROLLERS = "# Where slurmctld runs."
_NODES = "# Compute nodes in groups; what is not said of their hardware is discovered once and kept in the lock."
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
    """The annotated cluster file of first contact.

    Args:
        name: the ClusterName.
        ssh: how the hosts were reached.
        addresses: by host, for the hosts whose names alone do not lead there.
        controller: the host of slurmctld.
        compute: the compute nodes.

    Raises:
        ClusterFileError: these make no sound cluster, say because of the name.
    """
    parts = [_HEAD + f"cluster: {yaml_text(name)}\n", _ssh_part(ssh)]
    if addresses:
        parts.append("\n".join([_ADDRESSES, "addresses:", *_pairs(addresses, "  ")]) + "\n")
    parts += [
        f"{_CONTROLLERS}\ncontrollers: [{yaml_text(controller, in_flow=True)}]\n",
        f"{_NODES}\nnodes:\n  - hosts: {yaml_text(hostlist.fold(compute))}\n{_NODE_HINT}",
        _TAIL,
    ]
    text = "\n".join(parts)
    inventory.parse(text, _WHERE)
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
    """The text of a cluster file with further compute nodes, and nothing else changed.

    They join the group that says the same of its nodes, or make one; and the partitions named, and those of `like`.

    Args:
        text: the cluster file, line ends as they are.
        hosts: the new compute nodes.
        addresses: of new hosts whose names alone do not lead there; those of other hosts are ignored.
        settings: what to say of the new nodes, by key of a NodeName line.
        like: a node of the cluster whose settings the new ones get first.
        endpoints: of new hosts that SSH reaches elsewhere than at their address; see `Ssh.endpoints`.
        partitions: names of partitions that get the new nodes.

    Raises:
        ClusterFileError: the text has mistakes, or the new nodes' addresses or settings are some.
        InputError: a host is known, `like` or a partition is not, or the file cannot be extended safely.
    """
    old = inventory.parse(text, _WHERE)
    _check_new(old, hosts, like)
    wanted = {**(old.settings_of(like) if like else {}), **settings}
    places = {host: addresses[host] for host in hosts if host in addresses}
    ways = {host: endpoints[host] for host in hosts if host in endpoints}
    joined = _joined_partitions(old, partitions, like)
    edits = Edits(text)
    root = reading.compose(text, _WHERE)
    _add_endpoints(edits, root, ways)
    add_addresses(edits, root, places)
    _add_hosts(edits, root, hosts, wanted, _group(old, wanted, like))
    _add_to_partitions(edits, root, hosts, joined)
    return _checked(edits.applied(), old, dict.fromkeys(hosts, wanted), (places, ways, joined))


def write(path: Path, text: str) -> None:
    """Write a cluster file, in one step; a file that has this text already is left alone.

    Raises:
        InputError: the file cannot be written.
    """
    atomic_file.write(path, text)


def _ssh_part(ssh: Ssh) -> str:
    """The section on SSH; as a comment when there is nothing to say."""
    said = ssh.model_dump(exclude_none=True, exclude={"endpoints"})
    lines = [f"  {key}: {yaml_text(str(value))}" for key, value in said.items()]
    if ssh.endpoints:
        lines += ["  endpoints:", *_pairs(ssh.endpoints, "    ")]
    return "\n".join([_SSH, *(["ssh:", *lines] if lines else [_NO_SSH])]) + "\n"


def _pairs(mapping: Mapping[str, str], indent: str) -> list[str]:
    """Lines of hosts and what belongs to them, folded where that is exact."""
    return [
        f"{indent}{yaml_text(names)}: {yaml_text(places)}" for names, places in hostlist.zip_fold(list(mapping.items()))
    ]


def _check_new(cluster: Cluster, hosts: Sequence[str], like: str | None) -> None:
    """Stop at hosts that are no new ones."""
    if not hosts:
        raise InputError("No hosts to add were named.")
    known = [host for host in hosts if host in cluster.hosts]
    if known:
        words = "is" if len(known) == 1 else "are"
        raise InputError(
            f"{hostlist.fold(known)} {words} in the cluster already. `fab deploy` brings its hosts up to date."
        )
    if like is not None and like not in cluster.compute_nodes:
        raise InputError(f"{like} is no compute node, so no new one can be like it.")


def _group(cluster: Cluster, wanted: Mapping[str, str], like: str | None) -> int | None:
    """The number of the group that says just this of its nodes; that of `like` before others."""
    fitting = [number for number, group in enumerate(cluster.nodes) if group.settings == wanted]
    of_like = [number for number in fitting if like in cluster.nodes[number].hosts]
    return next(iter(of_like or fitting[-1:]), None)


def _add_hosts(
    edits: Edits, root: MappingNode, hosts: Sequence[str], wanted: Mapping[str, str], group: int | None
) -> None:
    """Into the group of this number, or into a new one when there is none or it is written in an odd way."""
    from ruamel.yaml.nodes import SequenceNode  # noqa: PLC0415

    nodes = _value_of(root, "nodes")
    assert isinstance(nodes, SequenceNode)
    in_flow = bool(root.flow_style or nodes.flow_style)
    if group is not None:
        value = _value_of(nodes.value[group], "hosts")
        if _extend(edits, value, hosts, in_flow or bool(nodes.value[group].flow_style)):
            return
    edits.append_mapping(nodes, {"hosts": hostlist.fold(hosts), **wanted}, in_flow)


def _add_to_partitions(edits: Edits, root: MappingNode, hosts: Sequence[str], joined: Sequence[int]) -> None:
    """Into the lists of the partitions of these numbers."""
    entries: Any = _value_of(root, "partitions") if joined else None
    for number in joined:
        in_flow = bool(root.flow_style or entries.flow_style or entries.value[number].flow_style)
        _extend(edits, _value_of(entries.value[number], "Nodes"), hosts, in_flow)


def _extend(edits: Edits, value: Node, hosts: Sequence[str], in_flow: bool) -> bool:
    """Take further hosts into a hostlist or a list of such; whether it is written in a way that allows that."""
    from ruamel.yaml.nodes import ScalarNode, SequenceNode  # noqa: PLC0415

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
    """The numbers of the partitions whose lists of nodes get longer."""
    known = [partition.name for partition in cluster.partitions]
    strangers = [name for name in names if name not in known]
    if strangers:
        raise InputError(f"{', '.join(strangers)}: no partition of this cluster (known: {', '.join(known)}).")
    return tuple(
        number
        for number, partition in enumerate(cluster.partitions)
        if partition.nodes != "ALL" and (partition.name in names or like in partition.nodes)
    )


def _extend_list(edits: Edits, items: SequenceNode, hosts: Sequence[str], in_flow: bool) -> None:
    """A list of hostlists: its ranges take in what continues them, other hosts become new entries."""
    in_flow = in_flow or bool(items.flow_style)
    ranges = [item for item in items.value if "[" in item.value and len(hostlist.entries(item.value)) == 1]
    extended = hostlist.extend([item.value for item in ranges], hosts)
    for item, longer in zip(ranges, extended, strict=False):
        if longer != item.value:
            edits.replace_scalar(item, longer, in_flow)
    edits.append_items(items, extended[len(ranges) :], in_flow)


def add_addresses(edits: Edits, root: MappingNode, addresses: Mapping[str, str]) -> None:
    """Further pairs after those that are there, or a new section after that on SSH."""
    sections = {key.value: (key, value) for key, value in root.value}
    pairs = dict(hostlist.zip_fold(list(addresses.items())))
    if "addresses" in sections and pairs:
        edits.append_pairs(sections["addresses"], pairs, bool(root.flow_style))
    elif pairs:
        edits.insert_section(root, "ssh" if "ssh" in sections else "cluster", "addresses", pairs)


def _add_endpoints(edits: Edits, root: MappingNode, endpoints: Mapping[str, str]) -> None:
    """The same in the section on SSH."""
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
    """The value of a key that is known to be there."""
    values: dict[str, Node] = {name.value: value for name, value in mapping.value}
    return values[key]


def _checked(
    text: str,
    old: Cluster,
    nodes: Mapping[str, Mapping[str, str]],
    where: tuple[Mapping[str, str], Mapping[str, str], Sequence[int]],
) -> str:
    """The new text, once it is known to describe the old cluster with these nodes and no other difference."""
    addresses, endpoints, joined = where
    rest: dict[str, Any] = {"nodes": True, "addresses": True, "ssh": {"endpoints": True}, "partitions": True}
    unsafe = InputError(
        f"{_WHERE} is written in a way that cannot be extended safely; nothing was changed. "
        f"Add {hostlist.fold(nodes)} to nodes (and addresses) by hand, then run `fab deploy`."
    )
    try:
        reading.compose(text, _WHERE)
    except ClusterFileError as error:
        raise unsafe from error
    new = inventory.parse(text, _WHERE)
    partitions = [
        one.model_copy(update={"nodes": (*one.nodes, *nodes)}) if number in joined else one
        for number, one in enumerate(old.partitions)
    ]
    is_extended = (
        {node: new.settings_of(node) for node in new.compute_nodes}
        == {**{node: old.settings_of(node) for node in old.compute_nodes}, **nodes}
        and new.addresses == {**old.addresses, **addresses}
        and new.ssh.endpoints == {**old.ssh.endpoints, **endpoints}
        and [_in_any_order(partition) for partition in new.partitions] == [_in_any_order(one) for one in partitions]
        and new.model_dump(exclude=rest) == old.model_dump(exclude=rest)
    )
    if not is_extended:
        raise unsafe
    return text


def _in_any_order(partition: Partition) -> Partition:
    """A partition to compare with: the order of its nodes means nothing."""
    nodes = partition.nodes
    return partition if nodes == "ALL" else partition.model_copy(update={"nodes": tuple(sorted(nodes))})
