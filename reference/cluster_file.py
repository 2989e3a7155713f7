"""The page of all keys of the cluster file, from its JSON schema: type, default, example and meaning of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reference.markdown import WRITTEN, anchor, code, plain, table, text_of
from slurmfab.cluster.inventory import json_schema
from slurmfab.cluster.inventory.edits.yaml_text import yaml_text
from slurmfab.cluster.inventory.json_schema import NULL, TRUTHS, Schema
from slurmfab.cluster.slurm import keys
from slurmfab.cluster.slurm.versions import NEWEST, OLDEST

HEADS = ("key", "type", "default", "example", "meaning")
SLURMS_HEADS = ("key", "example", "meaning")
FILES: Mapping[str, Mapping[str, keys.Key]] = {
    "slurm_conf": keys.SLURM_CONF,
    "cgroup_conf": keys.CGROUP_CONF,
    "slurmdbd_conf": keys.SLURMDBD_CONF,
}
"""The keys of the cluster file that take keys of one of Slurm's files."""

LONGEST_EXAMPLE = 48
"""Characters of an example in a table; longer ones are in the section of their key."""

_REFERENCE = re.compile(r"#/definitions/(\w+)")


@dataclass
class Sections:
    """Which mapping has its section where, in the order of the page.

    Args:
        definitions: the mappings of the schema by name.
        places: the place of each in the file, such as `power.how`, by its name.
    """

    definitions: Mapping[str, Schema]
    places: dict[str, str] = field(default_factory=dict)

    def find(self, place: str, schema: Schema) -> None:
        """Find the mappings inside of a value, each at the first place that has it."""
        if name := name_of(schema):
            if name not in self.places:
                self.places[name] = place
                self.find(place, self.definitions[name])
            return
        for inner in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            self.find(place, inner)
        if "items" in schema:
            self.find(f"{place}[]", schema["items"])
        for inner in of_names(schema):
            self.find(f"{place}.NAME", inner)
        for key, inner in schema.get("properties", {}).items():
            self.find(f"{place}.{key}" if place else key, inner)

    def link(self, name: str) -> str:
        """A link to the section of a mapping."""
        return f"[mapping](#{anchor(heading(self.places[name]))})"


def heading(place: str) -> str:
    """The heading of a section: its place in the file, or the key at the top whose entries are such mappings."""
    return re.sub(r"(\[\]|\.NAME)$", "", place)


def page() -> str:
    """The text of the page."""
    return text_of(lines())


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    made = json_schema.schema()
    sections = Sections(made["definitions"])
    sections.find("", {"properties": made["properties"]})
    yield from (
        "# Keys of the cluster file",
        "",
        WRITTEN,
        "[The cluster file](../cluster-file.md) explains the keys, and has the rules for the whole file; an",
        "[editor](../init.md#editors) shows what is here. Keys in snake_case are slurmfab's, keys in CamelCase are",
        f"Slurm's, here those of Slurm {OLDEST} to {NEWEST}.",
        "",
        "## At the top",
        "",
    )
    yield from table(HEADS, rows(made, sections))
    for key, schema in made["properties"].items():
        inside = {name: place for name, place in sections.places.items() if re.match(rf"{key}(\W|$)", place)}
        if inside or key in FILES:
            yield from ("", f"## {key}", "", "```yaml", json_schema.text_of(key), "```", "")
        if key in FILES:
            yield from of_file(FILES[key], schema)
        for name, place in inside.items():
            yield from ("", f"### {heading(place)}" if heading(place) != key else "", "")
            yield from (prose(made["definitions"][name]["description"]), "")
            yield from of_mapping(made["definitions"][name], sections)


def of_mapping(model: Schema, sections: Sections) -> Iterator[str]:
    """Yield the tables of a mapping: slurmfab's keys, then Slurm's."""
    own = list(rows(model, sections))
    if own:
        yield from table(HEADS, own)
    slurms = {key: value for key, value in model["properties"].items() if is_slurms(key, value)}
    if slurms:
        yield from ("", "Slurm's keys beside them:", "")
        yield from table(
            SLURMS_HEADS,
            (
                (code(key), ", ".join(code(str(one)) for one in value.get("examples", ())), plain(value["description"]))
                for key, value in slurms.items()
            ),
        )


def rows(model: Schema, sections: Sections) -> Iterator[tuple[str, ...]]:
    """Yield a row for each of slurmfab's keys in a mapping."""
    for key, value in model["properties"].items():
        if not is_slurms(key, value):
            default = "required" if key in model.get("required", ()) else default_of(value)
            kind = type_of(value, sections)
            yield code(key), kind, default, example_of(value, kind), prose(value["description"])


def is_slurms(key: str, value: Schema) -> bool:
    """Whether a key is Slurm's own, whose values slurmfab passes on."""
    return key[0].isupper() and value.get("type", [])[:3] == ["string", "number", "boolean"]


def of_file(table_of_keys: Mapping[str, keys.Key], schema: Schema) -> Iterator[str]:
    """Yield what there is about the keys of one of Slurm's files: all of them, and those of some versions."""
    known = schema["properties"]
    always: list[tuple[str, str]] = []
    changed: list[tuple[str, str]] = []
    for key in table_of_keys.values():
        if key.name in known:
            words = " ".join(json_schema.versions_of(key))
            (changed if words else always).append((code(key.name), words))
    yield from (plain(schema["description"]), "", f"In all versions: {', '.join(name for name, _ in always)}.", "")
    yield from table(("key", "versions"), changed)


def default_of(value: Schema) -> str:
    """The default of a key, as code."""
    return code(flow(value["default"])) if "default" in value else "none"


def example_of(value: Schema, kind: str) -> str:
    """The first example of a key that is short enough.

    Args:
        value: the schema of its value.
        kind: the values that it takes, in words; what links to a section has a longer example there.
    """
    texts = [flow(one) for one in value["examples"]]
    shown = next((text for text in texts if len(text) <= LONGEST_EXAMPLE), "" if "](#" in kind else texts[0])
    return code(shown) if shown else "below"


def prose(text: str) -> str:
    """A text for people, whose code in backticks is code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else plain(part) for part in parts)


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{yaml_text(key, in_flow=True)}: {flow(one)}' for key, one in value.items())}}}"
    return "null" if value is None else str(value) if isinstance(value, int | float) else yaml_text(value, in_flow=True)


def type_of(schema: Schema, sections: Sections) -> str:
    """The values that a key takes, in words."""
    if name := name_of(schema):
        return sections.link(name)
    if "anyOf" in schema or "allOf" in schema:
        choices = [one for one in (*schema.get("anyOf", ()), *schema.get("allOf", ())) if one != NULL]
        return " or ".join(dict.fromkeys(type_of(one, sections) for one in choices))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(flow(one)) for one in schema.get("enum", [schema.get("const")]))
    types = [kind for kind in listed(schema["type"]) if kind != "null"]
    if "array" in types:
        return f"list of {type_of(schema['items'], sections)}".replace("list of text", "list of texts")
    if "object" in types:
        inner = next(of_names(schema), None)
        return "mapping" if inner is None else f"{type_of(inner, sections)} by name"
    return single(types, schema)


def single(types: list[str], schema: Schema) -> str:
    """The kind of a single value, in words."""
    if "boolean" in types and (schema.get("pattern") == TRUTHS or types == ["boolean"]):
        return "`true`, `false`"
    if "string" in types:
        return "text"
    if "integer" not in types:
        return "number"
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = f" {least} to {most}" if most is not None else f" from {least} on" if least is not None else ""
    return f"whole number{bounds}"


def of_names(schema: Schema) -> Iterator[Schema]:
    """Yield the schemas of a mapping's values whose keys are names that the user chooses."""
    others = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    yield from (one for one in others if isinstance(one, dict) and "properties" not in schema)


def name_of(schema: Schema) -> str:
    """The name of the mapping that a schema refers to; empty for none."""
    found = _REFERENCE.fullmatch(schema.get("$ref", ""))
    return found[1] if found else ""


def listed(types: Any) -> list[str]:
    """One type, or several, as a list."""
    return [types] if isinstance(types, str) else types
