"""The YAML of a cluster file as plain values that know the lines they came from; what they mean is not known here.

Scalars stay the text that the user wrote, so that `010`, `1:30`, `no` and `24.10` are what they look like; only plain
`true`, `false` and nothing (`null`) become Python's. Where the models want a number, they make it of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from slurmfab import hostlist
from slurmfab.errors import ClusterFileError, HostlistError

Place = tuple[str | int, ...]

# Where a mapping holds hostlists on both sides, and where CamelCase keys stand beside slurmfab's own.
_ZIPPED: tuple[Place, ...] = (("addresses",), ("ssh", "endpoints"))
_WITH_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "nodes": (),
    "partitions": ("PartitionName", "Nodes"),
    "qos": (),
    "accounts": (),
    "users": (),
}
_DEEPEST = 10
_TAGS = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map", "timestamp")
)


@dataclass(frozen=True)
class Complaint:
    """One mistake in a cluster file: its line, from 1, and its place among the keys."""

    line: int
    place: Place
    reason: str


@dataclass(frozen=True)
class Document:
    """A cluster file in the shape of the models.

    Args:
        shape: what `Cluster` validates.
        lines: by place in the shape, the line on which its key stands.
        complaints: what was found wrong on the way.
    """

    shape: dict[str, Any]
    lines: dict[Place, int] = field(default_factory=dict)
    complaints: list[Complaint] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest place around it that the file has."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def compose(text: str, where: str) -> MappingNode:
    """The file's YAML as nodes that know where they stand in the text.

    Args:
        text: the file's text.
        where: the file's name, for complaints.

    Raises:
        ClusterFileError: the text is no YAML, or no mapping.
    """
    try:
        root = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ClusterFileError((f"{where}:{line}: {_syntax_reason(error)}",)) from error
    except (YAMLError, ValueError) as error:
        raise ClusterFileError((f"{where}:1: this is no YAML: {' '.join(str(error).split())}",)) from error
    if root is None:
        raise ClusterFileError((f"{where}:1: the file is empty; docs/cluster-file.md shows what goes into it.",))
    if not isinstance(root, MappingNode):
        line = root.start_mark.line + 1
        raise ClusterFileError((f"{where}:{line}: the file must be a mapping, with lines such as `cluster: titanic`.",))
    return root


def read(text: str, where: str) -> Document:
    """The file's text as a document; complaints about single keys are in it.

    Raises:
        ClusterFileError: the text is no YAML, or no mapping.
    """
    document = Document({})
    document.shape.update(_mapping(compose(text, where), (), document))
    return document


def is_slurms(key: str) -> bool:
    """Whether a key is Slurm's by its case."""
    return key[:1].isupper()


def _syntax_reason(error: MarkedYAMLError) -> str:
    """What ruamel says in several lines, in one; with a hint at the commonest slip in this file."""
    problem, context = error.problem or "", error.context or ""
    words = (context, problem) if problem.startswith("but ") else (problem, context)
    reason = f"this is no YAML: {', '.join(word for word in words if word)}"
    if "flow" in context and problem.endswith("but got '['"):
        reason += '. Inside { } and [ ] a hostlist needs quotes: {Nodes: "cn[01-04]"}'
    elif "'\\t'" in problem:
        reason += ". Indent with spaces, not with tabs"
    return reason


def _value(node: Node, place: Place, document: Document) -> Any:
    """A node as plain values."""
    if node.tag is not None and str(node.tag) not in _TAGS:
        _complain(document, node, place, f"the tag {node.tag} means nothing here")
    if len(place) > _DEEPEST:
        _complain(document, node, place[:2], "it is nested too deeply")
        return None
    if isinstance(node, MappingNode):
        return _mapping(node, place, document)
    if isinstance(node, SequenceNode):
        return _sequence(node, place, document)
    assert isinstance(node, ScalarNode)
    return _scalar(node)


def _scalar(node: ScalarNode) -> str | bool | None:
    """A scalar as it was written, unless it is a plain true, false or nothing."""
    kind = str(node.tag).rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return str(node.value).lower() == "true"
    return str(node.value)


def _sequence(node: SequenceNode, place: Place, document: Document) -> list[Any]:
    values = []
    for number, item in enumerate(node.value):
        document.lines[(*place, number)] = item.start_mark.line + 1
        values.append(_value(item, (*place, number), document))
    return values


def _mapping(node: MappingNode, place: Place, document: Document) -> dict[str, Any]:
    """A mapping; where Slurm's keys stand beside slurmfab's, they go to `settings`."""
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
    """The keys of a mapping with their values and lines, complaining of those that are there twice or are no text."""
    first: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode):
            _complain(document, key, place, "a key must be text")
        elif key.value == "<<":
            _complain(document, key, (*place, "<<"), "merge keys are not supported; write the keys out")
        elif key.value in first:
            reason = f"this key is there twice, on line {first[key.value]} first"
            _complain(document, key, (*place, str(key.value)), reason)
        else:
            first[str(key.value)] = line
            yield str(key.value), value, line


def _zipped(names: str, node: Node, place: Place, document: Document) -> dict[str, Any]:
    """What a pair of hostlists means, each host with the line of the pair."""
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
        _complain(document, node, place, f"{hostlist.fold(taken)} is in an earlier line already")
    document.lines.update({(*place[:-1], name): line for name in pairs})
    return dict(pairs)


def _complain(document: Document, node: Node, place: Place, reason: str) -> None:
    document.complaints.append(Complaint(node.start_mark.line + 1, place, reason))
