"""Remove nodes from a cluster file, or change the address of a host.

Only the bytes that must change do. The text is changed at one place after another, and parsed again in between, so that
each change finds its place whatever the one before did to the text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from slurmfab.base import hostlist
from slurmfab.base.errors import ClusterFileError, HostlistError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.edits.yaml_text import Edits
from slurmfab.cluster.inventory.yaml_nodes import compose

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

    from slurmfab.cluster.inventory.cluster import Cluster, Switch

_WHERE = "the cluster file"
_COMPARED_BY_HAND: dict[str, Any] = {
    "nodes": True,
    "addresses": True,
    "ssh": {"endpoints": True},
    "partitions": True,
    "topology": True,
}
Cut = Callable[[Edits], None]  # one change of a text


def without_nodes(text: str, hosts: Collection[str]) -> str:
    """Remove compute nodes from the text of a cluster file, and change nothing else.

    They are removed from `nodes`, partitions, `topology`, `addresses` and `ssh.endpoints`. A group without nodes is
    removed; a partition without nodes stays, with `Nodes: []`. `hosts`: compute nodes that have no other role. Raises
    InputError if a host is not such a node, no node would remain, or the file is written in a way that cannot be
    changed safely.
    """
    old = loading.parse(text, _WHERE)
    gone = frozenset(hosts)
    strangers = sorted(host for host in gone if old.roles(host) != ("compute",))
    if strangers or not gone:
        named = hostlist.fold(strangers) or "No host"
        raise InputError(f"{named}: not a compute node that can be removed from {_WHERE}.")
    if gone >= set(old.compute_nodes):
        raise InputError("No compute node would be left, and Slurm needs at least one.")
    new_text = _cut_until_done(text, gone, _places)
    nodes = {node: old.settings_of(node) for node in old.compute_nodes if node not in gone}
    return _checked(new_text, old, gone, nodes, {})


def with_address(text: str, host: str, address: str) -> str:
    """Change a host's address in the file's text, also for SSH; ClusterFileError, or InputError if not safe."""
    old = loading.parse(text, _WHERE)
    if old.addresses.get(host) == address and host not in old.ssh.endpoints:
        return text
    cut = _cut_until_done(text, frozenset({host}), _pair_cuts)
    edits = Edits(cut)
    writing.add_addresses(edits, compose(cut, _WHERE), {host: address})
    nodes = {node: old.settings_of(node) for node in old.compute_nodes}
    return _checked(edits.applied(), old, frozenset({host}), nodes, {host: address})


def _cut_until_done(
    text: str, gone: frozenset[str], cuts: Callable[[MappingNode, frozenset[str]], Iterator[Cut]]
) -> str:
    """The text after all changes."""
    while True:
        try:
            cut = next(cuts(compose(text, _WHERE), gone), None)
        except InputError as error:
            raise _unsafe(gone) from error
        if cut is None:
            return text
        edits = Edits(text)
        cut(edits)
        changed = edits.applied()
        if changed == text:
            raise _unsafe(gone)
        text = changed


def _places(root: MappingNode, gone: frozenset[str]) -> Iterator[Cut]:
    """Yield the changes at all places that name these nodes."""
    sections = _values(root)
    for number, group in enumerate(sections["nodes"].value):
        in_flow = bool(root.flow_style or sections["nodes"].flow_style or group.flow_style)
        if set(_hosts(_values(group)["hosts"])) <= gone:
            yield lambda edits, number=number: edits.remove_item(sections["nodes"], number)  # type: ignore[misc]
        yield from _host_cuts(_values(group)["hosts"], gone, in_flow)
    for key in ("partitions", "topology"):
        yield from _list_cuts(root, sections.get(key), gone)
    yield from _pair_cuts(root, gone)


def _list_cuts(root: MappingNode, section: Any, gone: frozenset[str]) -> Iterator[Cut]:
    """Yield the changes in the `Nodes` of partitions or switches."""
    for entry in section.value if section is not None and section.id == "sequence" else ():
        in_flow = bool(root.flow_style or section.flow_style or entry.flow_style)
        nodes = _values(entry).get("Nodes")
        if nodes is not None and not (nodes.id == "scalar" and nodes.value.upper() == "ALL"):
            yield from _host_cuts(nodes, gone, in_flow)


def _pair_cuts(root: MappingNode, gone: frozenset[str]) -> Iterator[Cut]:
    """Yield the changes in `addresses` and `ssh.endpoints`."""
    sections = {key.value: (key, value) for key, value in root.value}
    if "addresses" in sections:
        yield from _zipped_cuts(sections["addresses"], gone, bool(root.flow_style))
    ssh = sections["ssh"][1] if "ssh" in sections else None
    if ssh is not None and ssh.id == "mapping":
        inside = {key.value: (key, value) for key, value in ssh.value}
        if "endpoints" in inside:
            yield from _zipped_cuts(inside["endpoints"], gone, bool(root.flow_style or ssh.flow_style))


def _host_cuts(value: Any, gone: frozenset[str], in_flow: bool) -> Iterator[Cut]:
    """Yield the changes in a hostlist, or in a list of hostlists."""
    if value.id == "scalar":
        names = _hosts(value)
        if gone.intersection(names):
            left = _without(value.value, gone)
            yield lambda edits: edits.replace_text(value, left, in_flow) if left else edits.replace_list(value)
        return
    flow = in_flow or bool(value.flow_style)
    for number, item in enumerate(value.value):
        if gone.intersection(_hosts(item)):
            left = _without(item.value, gone)
            if left:
                yield lambda edits, item=item, left=left: edits.replace_text(item, left, flow)  # type: ignore[misc]
            else:
                yield lambda edits, number=number: edits.remove_item(value, number)  # type: ignore[misc]


def _zipped_cuts(section: tuple[Node, Node], gone: frozenset[str], in_flow: bool) -> Iterator[Cut]:
    """Yield the changes in a mapping of hostlists to hostlists."""
    mapping: Any = section[1]
    for number, (key, value) in enumerate(mapping.value if mapping.id == "mapping" else ()):
        pairs = hostlist.zip_hostlists(key.value, value.value)
        left = [(host, place) for host, place in pairs.items() if host not in gone]
        if not left:
            yield lambda edits, number=number: edits.remove_pair(mapping, number)  # type: ignore[misc]
        elif len(left) < len(pairs):
            yield partial(_shorten_pair, section=section, number=number, left=left, in_flow=in_flow)


def _shorten_pair(
    edits: Edits, section: tuple[Node, Node], number: int, left: list[tuple[str, str]], *, in_flow: bool
) -> None:
    """Replace a pair of hostlists by the rest: one pair if that is exact, else further pairs at the end."""
    mapping: Any = section[1]
    key, value = mapping.value[number]
    (names, places), *more = hostlist.zip_fold(left)
    edits.replace_text(key, names, in_flow or bool(mapping.flow_style))
    edits.replace_text(value, places, in_flow or bool(mapping.flow_style))
    if more:
        edits.append_pairs(section, dict(more), in_flow)


def _without(text: str, gone: frozenset[str]) -> str:
    """A hostlist without some hosts; entries without these hosts stay unchanged."""
    left = []
    for entry in hostlist.entries(text):
        inside = hostlist.expand(entry)
        kept = [host for host in inside if host not in gone]
        if len(kept) == len(inside):
            left.append(entry)
        elif kept:
            left.append(hostlist.fold(kept))
    return ",".join(left)


def _hosts(value: Any) -> tuple[str, ...]:
    """The hosts of a hostlist, or of a list of hostlists."""
    parts = [value.value] if value.id == "scalar" else [item.value for item in value.value]
    return tuple(host for part in parts for host in hostlist.expand(part))


def _values(mapping: Any) -> dict[str, Any]:
    """The values of a mapping by key."""
    return {key.value: value for key, value in mapping.value}


def _checked(
    text: str, old: Cluster, gone: frozenset[str], nodes: dict[str, dict[str, str]], addresses: dict[str, str]
) -> str:
    """Check that the new text describes the old cluster with these differences only, and return it."""
    try:
        compose(text, _WHERE)
        new = loading.parse(text, _WHERE)
    except HostlistError as error:
        raise _unsafe(gone) from error
    except ClusterFileError as error:
        if addresses:
            raise
        raise InputError(
            f"Without {hostlist.fold(gone)}, {_WHERE} would have mistakes. Change these entries by hand first; "
            f"nothing was changed.\n{error}"
        ) from None
    leaving = frozenset(node for node in gone if node not in nodes)
    partitions = [
        partition
        if partition.nodes == "ALL"
        else partition.model_copy(update={"nodes": tuple(node for node in partition.nodes if node not in leaving)})
        for partition in old.partitions
    ]
    is_right = (
        {node: new.settings_of(node) for node in new.compute_nodes} == nodes
        and new.addresses == {**_without_keys(old.addresses, gone), **addresses}
        and new.ssh.endpoints == _without_keys(old.ssh.endpoints, gone)
        and list(new.partitions) == partitions
        and list(new.topology) == [_without_nodes(switch, leaving) for switch in old.topology]
        and new.model_dump(exclude=_COMPARED_BY_HAND) == old.model_dump(exclude=_COMPARED_BY_HAND)
    )
    if not is_right:
        raise _unsafe(gone)
    return text


def _without_nodes(switch: Switch, leaving: Collection[str]) -> Switch:
    """A switch without these nodes."""
    return switch.model_copy(update={"nodes": tuple(node for node in switch.nodes if node not in leaving)})


def _without_keys(mapping: Any, gone: frozenset[str]) -> dict[str, str]:
    return {key: value for key, value in mapping.items() if key not in gone}


def _unsafe(gone: frozenset[str]) -> InputError:
    return InputError(
        f"{_WHERE} is written in a way that cannot be changed safely; nothing was changed. Change the entries of "
        f"{hostlist.fold(gone)} by hand: one hostlist per line, without anchors and aliases."
    )
