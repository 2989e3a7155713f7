"""The manual page of the cluster file, slurmfab-cluster-file.5, from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reference.manual import PROGRAM, bold, heading, item, plain, section, text_of
from slurmfab.cluster.inventory import schema_file

NAME = f"{PROGRAM}-cluster-file"
EXAMPLE = (
    "cluster: titanic",
    "controllers: [mn01]",
    'addresses: {mn01: 10.0.0.1, "cn[01-16]": "10.0.1.[1-16]"}',
    "nodes:",
    "  - hosts: cn[01-16]",
)
DEEPEST = 3
"""How far keys inside keys are told."""

Schema = Mapping[str, Any]


def page() -> str:
    """The text of the page."""
    return text_of(lines(json.loads(schema_file.text(None))))


def lines(schema: Schema) -> Iterator[str]:
    """Yield the lines of the page.

    Args:
        schema: the schema of cluster files.
    """
    yield from heading(NAME, 5)
    yield from section("Name", f"{plain(NAME)} \\- the cluster file of slurmfab")
    yield from section(
        "Description",
        plain(
            "The cluster file, usually configs/cluster.yaml, describes a cluster as it should be, in YAML 1.2. Keys in "
            "snake_case belong to slurmfab and are listed here. Keys in CamelCase belong to Slurm, spelled as in "
            "slurm.conf, and are passed on. Hosts are hostlists, such as cn[01-16]."
        ),
    )
    yield from section("Examples", ".EX", *map(plain, EXAMPLE), ".EE")
    yield ".SH KEYS"
    for name, key in keys_of(schema, schema):
        yield from item(bold(name), told(key, is_required=name in schema.get("required", ())))
    yield from section(
        "See also", f".BR {PROGRAM} (1),", f".BR {plain(PROGRAM + '-schema')} (1),", ".BR slurm.conf (5)"
    )


def keys_of(schema: Schema, whole: Schema, above: str = "", depth: int = 1) -> Iterator[tuple[str, Schema]]:
    """Yield slurmfab's own keys, each with what the schema says of it, and keys inside it right after it.

    Args:
        schema: of a mapping.
        whole: the schema with all definitions.
        above: the keys around it, with dots.
        depth: how many mappings are around it, and itself.
    """
    for name, key in schema.get("properties", {}).items():
        if name[:1].isupper() or not isinstance(key, Mapping):
            continue
        yield f"{above}{name}", key
        if depth < DEEPEST:
            for inner in mappings_in(key, whole):
                yield from keys_of(inner, whole, f"{above}{name}.", depth + 1)


def mappings_in(key: Schema, whole: Schema) -> Iterator[Schema]:
    """Yield the definitions of mappings that a key may be, or may be a list of."""
    if "$ref" in key:
        yield whole["definitions"][key["$ref"].rpartition("/")[2]]
    for part in (key.get("items"), *key.get("anyOf", ())):
        if isinstance(part, Mapping):
            yield from mappings_in(part, whole)


def told(key: Schema, *, is_required: bool) -> str:
    """What a key is, with its default and an example."""
    text = str(key.get("description", "")).strip()
    default = key.get("default")
    parts = [text if text.endswith(".") or not text else f"{text}."]
    if is_required:
        parts.append("Required.")
    elif default not in (None, "", [], {}):
        parts.append(f"Default: {spelled(default)}.")
    examples = key.get("examples") or ()
    if examples:
        parts.append(f"Example: {spelled(examples[0])}")
    return " ".join(filter(None, parts))


def spelled(value: Any) -> str:
    """A value as YAML in one line."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
