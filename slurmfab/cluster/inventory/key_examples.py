"""Cluster files that have every key of a cluster file once: the examples that editors and the reference show.

The tests load each of them, and see that no key is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from slurmfab.cluster.inventory.yaml_nodes import TAG, compose

_MOST = 3  # the most examples of a key

_NUMBER = re.compile(r"(0|[1-9]\d{0,14})(\.\d{1,9})?")

DOCUMENTS = tuple(path.read_text() for path in sorted((Path(__file__).parent / "examples").glob("*.yaml")))
"""Cluster files; the first example of a key is the one that the reference shows."""


def add(top: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Add the examples to the schema of a cluster file. `definitions`: the schemas of its parts, to which it refers."""
    for document in DOCUMENTS:
        _add(top, plain(compose(document, "an example")), definitions)
    for part in (top, *definitions.values()):
        for one in part["properties"].values():
            if one.get("type") == "boolean" and "examples" not in one:
                one["examples"] = [not one.get("default", False)]


def _add(schema: dict[str, Any], value: Any, definitions: Mapping[str, Any]) -> None:
    """Add a value, and the values inside it, to the schemas of their keys."""
    for one in _alternatives(schema, definitions):
        if isinstance(value, list) and "items" in one:
            for inner in value:
                _add(one["items"], inner, definitions)
        for key, inner in value.items() if isinstance(value, dict) else ():
            of_key = one.get("properties", {}).get(key)
            for other in (one.get("additionalProperties"), *one.get("patternProperties", {}).values()):
                if of_key is None and isinstance(other, dict):
                    _add(other, inner, definitions)
            if of_key is not None:
                examples = of_key.setdefault("examples", [])
                if inner not in examples and len(examples) < _MOST:
                    examples.append(inner)
                _add(of_key, inner, definitions)


def _alternatives(schema: dict[str, Any], definitions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a value may have."""
    if "$ref" in schema:
        yield from _alternatives(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif "anyOf" in schema:
        for one in schema["anyOf"]:
            yield from _alternatives(one, definitions)
    else:
        yield schema


def plain(node: Node) -> Any:
    """The value of a node as an editor reads it: numbers are numbers."""
    if isinstance(node, MappingNode):
        return {key.value: plain(value) for key, value in node.value}
    if not isinstance(node, ScalarNode):
        return [plain(one) for one in node.value]
    if node.tag == TAG + "null":
        return None
    if node.tag == TAG + "bool":
        return str(node.value).lower() == "true"
    if node.style or not _NUMBER.fullmatch(node.value):
        return str(node.value)
    return float(node.value) if "." in node.value else int(node.value)


def text_of(key: str) -> str:
    """The lines of a key at the top of the file, such as `power`, with its value in the first example that has it."""
    for document in DOCUMENTS:
        lines = document.splitlines()
        starts = [number for number, line in enumerate(lines) if not line.startswith(" ")] + [len(lines)]
        for start, end in pairwise(starts):
            if lines[start].startswith(f"{key}:"):
                return "\n".join(lines[start:end])
    return ""
