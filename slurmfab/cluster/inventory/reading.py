"""Read the YAML of a cluster file as plain values, texts as the user wrote them, with the line of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.yaml_nodes import INSIDE_ITSELF, NULLS, TAG, TRUTHS, compose

Place = tuple[str | int, ...]

# Mappings with hostlists on both sides, and mappings with CamelCase keys of Slurm beside slurmfab's own.
_ZIPPED: tuple[Place, ...] = (("addresses",), ("ssh", "endpoints"))
_WITH_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "nodes": (),
    "future_nodes": (),
    "partitions": ("PartitionName", "Nodes"),
    "qos": (),
    "accounts": (),
    "users": (),
}
_DEEPEST = 10
_QUOTES = tuple("\u201c\u201e\u2018\u201a\u00ab\u2039")  # those of word processors
MOST_COMPLAINTS = 200  # the most mistakes that are reported at once; one wrong hostlist can be 65,536 of them
EMPTY = f" Remove it; then `{FAB} init` writes one after a few questions."  # what to do about an empty cluster file

_TAGS = frozenset(TAG + name for name in ("str", "int", "float", "bool", "null", "seq", "map", "timestamp"))


@dataclass(frozen=True)
class Complaint:
    """One mistake in a cluster file: its line (from 1), its place among the keys, and the reason."""

    line: int
    place: Place
    reason: str


@dataclass(frozen=True)
class Document:
    """A cluster file in the shape of the models."""

    shape: dict[str, Any]  # the values that `Cluster` validates
    lines: dict[Place, int] = field(default_factory=dict)  # the line of each key, by its place in the shape
    complaints: list[Complaint] = field(default_factory=list)  # mistakes found while reading

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest place around it that is in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read(text: str, where: str) -> Document:
    """Read the text of a cluster file, with complaints about keys; ClusterFileError if it is no YAML mapping."""
    document = Document({})
    document.shape.update(_mapping(compose(text, where, EMPTY), (), document))
    return document


def is_slurms(key: str) -> bool:
    """Whether a key is a Slurm key, by its capital first letter."""
    return key[:1].isupper()


def _value(node: Node, place: Place, document: Document) -> Any:
    """Convert a node to plain values."""
    _check_tag(node, place, document)
    if len(place) > _DEEPEST:
        _complain(document, node, place[:2], "it is nested too deeply")
        return None
    if isinstance(node, ScalarNode):
        if not node.style and node.value[:1] in _QUOTES:
            plain = node.value.strip("".join(_QUOTES) + "\u201d\u2019\u00bb")
            _complain(document, node, place, f'these are typographic quotes; write plain ones, or none: "{plain}"')
        return _scalar(node)
    return _mapping(node, place, document) if isinstance(node, MappingNode) else _sequence(node, place, document)


def _check_tag(node: Node, place: Place, document: Document) -> None:
    """Complain about an unsupported tag, or one that does not fit its value."""
    if node.tag == INSIDE_ITSELF:
        _complain(document, node, place[:2], "it is nested too deeply")
    elif node.tag not in _TAGS:
        _complain(document, node, place, f"the tag {node.tag} is not supported")
    elif (node.tag == TAG + "null" and node.value not in NULLS) or (
        node.tag == TAG + "bool" and node.value not in TRUTHS
    ):
        _complain(document, node, place, f"the tag {node.tag} does not fit its value")


def _scalar(node: ScalarNode) -> str | bool | None:
    """The text of a scalar; a boolean or `None` for plain true, false and null."""
    if node.tag == TAG + "null":
        return None
    if node.tag == TAG + "bool":
        return str(node.value).lower() == "true"
    return str(node.value)


def _sequence(node: Node, place: Place, document: Document) -> list[Any]:
    values = []
    for number, item in enumerate(node.value):
        document.lines[(*place, number)] = item.start_mark.line + 1
        values.append(_value(item, (*place, number), document))
    return values


def _mapping(node: MappingNode, place: Place, document: Document) -> dict[str, Any]:
    """Convert a mapping; Slurm's keys beside slurmfab's go to `settings`."""
    own = _WITH_SETTINGS.get(str(place[0])) if len(place) == 2 and isinstance(place[1], int) else None  # noqa: PLR2004
    values: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, value, line in _pairs(node, place, document):
        is_setting = own is not None and is_slurms(key) and key not in own
        if own is not None and key == "settings":
            _complain(document, value, (*place, key), "unknown key; write Slurm's keys beside the others")
            continue
        inner = (*place, "settings", key) if is_setting else (*place, key)
        document.lines[inner] = line
        if place in _ZIPPED:
            values.update(_zipped(key, value, inner, document))
        else:
            (settings if is_setting else values)[key] = _value(value, inner, document)
    return {**values, "settings": settings} if settings else values


def _pairs(node: MappingNode, place: Place, document: Document) -> Iterator[tuple[str, Node, int]]:
    """Yield the keys of a mapping with values and lines; complain about repeated keys and keys that are not text."""
    first: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode) or key.tag == INSIDE_ITSELF:
            hint = "; variables of templates, such as {{ name }}, are not filled in here" if key.value else ""
            _complain(document, key, place, f"a key must be text{hint}")
        elif key.tag not in _TAGS:
            _complain(document, key, (*place, str(key.value)), f"the tag {key.tag} is not supported")
        elif key.value == "<<":
            _complain(document, key, (*place, "<<"), "merge keys are not supported; write the keys out")
        elif key.value in first:
            reason = f"this key is already on line {first[key.value]}"
            _complain(document, key, (*place, str(key.value)), reason)
        else:
            first[str(key.value)] = line
            yield str(key.value), value, line


def _zipped(names: str, node: Node, place: Place, document: Document) -> dict[str, Any]:
    """Expand a pair of hostlists; each host gets the line of the pair."""
    value = _value(node, place, document)
    if not isinstance(value, str):
        return {names: value}
    try:
        pairs = hostlist.zip_hostlists(names, value)
    except HostlistError as error:
        _complain(document, node, place, str(error))
        return {}
    line = document.lines[place]
    taken: Sequence[str] = [name for name in pairs if name != names and (*place[:-1], name) in document.lines]
    if taken:
        _complain(document, node, place, f"{hostlist.fold(taken)} is already in an earlier line")
    document.lines.update({(*place[:-1], name): line for name in pairs})
    return dict(pairs)


def _complain(document: Document, node: Node, place: Place, reason: str) -> None:
    if len(document.complaints) < MOST_COMPLAINTS:
        document.complaints.append(Complaint(node.start_mark.line + 1, place, reason))
