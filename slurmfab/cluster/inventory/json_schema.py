"""The JSON schema of a cluster file, made from the models: what editors complete, explain and mark.

It is the one source of the reference of keys, too (`key_reference.py`). It refuses less than the models do, since rules
between keys are not in it, and accepts what they accept. Its dialect is draft 7, which all editors know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema
from yaml.nodes import MappingNode, Node, ScalarNode

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.schema_version import made_from
from slurmfab.cluster.inventory.slurm_settings import (
    NODE_KEYS_OF_SLURMFAB,
    SLURM_CONF_KEYS_OF_SLURMFAB,
    SLURMDBD_CONF_KEYS_OF_SLURMFAB,
)
from slurmfab.cluster.inventory.values import PATTERNS, may_be_left_out
from slurmfab.cluster.inventory.yaml_nodes import TAG, compose
from slurmfab.cluster.slurm import keys, limits
from slurmfab.cluster.slurm.gres import KEYS_OF_GRES_CONF
from slurmfab.cluster.slurm.keys import Key
from slurmfab.cluster.slurm.limits import Limit
from slurmfab.cluster.slurm.tables import read_table
from slurmfab.cluster.slurm.versions import SlurmVersion

_MOST = 3  # the most examples of a key

_NUMBER = re.compile(r"(0|[1-9]\d{0,14})(\.\d{1,9})?")

DOCUMENTS = tuple(path.read_text() for path in sorted((Path(__file__).parent / "examples").glob("*.yaml")))
"""Cluster files; the first example of a key is the one that the reference shows."""

Schema = dict[str, Any]
TRUTHS = "^([Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff])$"  # words that are read as true and false besides these two
NULL: Schema = {"type": "null"}
_ABOUT = ("description", "markdownDescription", "default", "examples")

_UNSHOWN = ("title", "ge", "le", "default", "required", "properties")
"""`ge` and `le` are pydantic's, of a number that is a text in the file."""

DIALECT = "http://json-schema.org/draft-07/schema#"
_REFERENCE = "#/definitions/{model}"
_ANY_KEY = "^[A-Z][A-Za-z0-9_]*$"
_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_OF_PARTITIONS = ("PartitionName", "Nodes")


def add_example(top: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Add the examples to the schema of a cluster file. `definitions`: the schemas of its parts, to which it refers."""
    for document in DOCUMENTS:
        _add_to_example(top, plain(compose(document, "an example")), definitions)
    for part in (top, *definitions.values()):
        for one in part["properties"].values():
            if one.get("type") == "boolean" and "examples" not in one:
                one["examples"] = [not one.get("default", False)]


def _add_to_example(schema: dict[str, Any], value: Any, definitions: Mapping[str, Any]) -> None:
    """Add a value, and the values inside it, to the schemas of their keys."""
    for one in _alternatives(schema, definitions):
        if isinstance(value, list) and "items" in one:
            for inner in value:
                _add_to_example(one["items"], inner, definitions)
        for key, inner in value.items() if isinstance(value, dict) else ():
            of_key = one.get("properties", {}).get(key)
            for other in (one.get("additionalProperties"), *one.get("patternProperties", {}).values()):
                if of_key is None and isinstance(other, dict):
                    _add_to_example(other, inner, definitions)
            if of_key is not None:
                examples = of_key.setdefault("examples", [])
                if inner not in examples and len(examples) < _MOST:
                    examples.append(inner)
                _add_to_example(of_key, inner, definitions)


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


def for_editors(node: Schema) -> Schema:
    """The schema of a value, and of all values inside it. `node`: as pydantic makes it."""
    made = {key: value for key, value in node.items() if key not in _UNSHOWN}
    made |= {key: one for key, one in (("default", _default(node.get("default"))),) if one is not None}
    if "\n" in made.get("description", ""):
        made["description"] = made["description"].partition("\n\n")[0].replace("\n", " ")
    if "pattern" in node:
        made["pattern"] = re.sub(r"\\z$", "$", node["pattern"])
    if "default" in made and "description" in made:
        # Editors show no default, but for this key the text in place of the description.
        default = made["default"] if isinstance(made["default"], str) else json.dumps(made["default"])
        made["markdownDescription"] = f"{made['description']} Default: `{default}`."
    if "anyOf" in node:
        return _choice(made)
    if "items" in node:
        made["items"] = for_editors(node["items"])
    if node.get("type") == "object" or "properties" in node:
        return made | _mapping(node)
    if "$ref" in node and len(made) > 1:
        return {**_about(made), "allOf": [{"$ref": node["$ref"]}]}
    if node.get("type") == "string" and "enum" not in node and "const" not in node:
        made["type"] = ["string", "number"]
    elif node.get("type") == "boolean" and "const" not in node:
        made |= {"type": ["boolean", "string"], "pattern": TRUTHS, "patternErrorMessage": "It must be true or false."}
    return made


def _default(value: Any) -> Any:
    """A default that says something: a single value, or a list of such."""
    is_list = isinstance(value, list) and value and not isinstance(value[0], dict)
    return value if is_list or (isinstance(value, str | int | float) and value != "") else None


def _mapping(node: Schema) -> Schema:
    """The keys of a mapping; those that need not be there may have no value."""
    made: Schema = {}
    if "properties" in node:
        required = node.get("required", [])
        made["properties"] = {
            key: for_editors(one) if key in required or is_slurms(one) else or_null(for_editors(one))
            for key, one in node["properties"].items()
        }
        made |= {"required": required} if required else {}
    if isinstance(node.get("additionalProperties"), dict):
        made["additionalProperties"] = for_editors(node["additionalProperties"])
    if "patternProperties" in node:
        made["patternProperties"] = {key: for_editors(one) for key, one in node["patternProperties"].items()}
        made["additionalProperties"] = False
    return made


def is_slurms(value: Schema) -> bool:
    """Whether a value goes to Slurm as it is (`json_schema.py`); without one, the key is a mistake."""
    return isinstance(value.get("type"), list)


def _choice(made: Schema) -> Schema:
    """A choice between schemas: as one list of types where they are nothing more than types."""
    choices = [for_editors(one) for one in made["anyOf"]]
    if len([one for one in choices if one != NULL]) > 1:
        # Only where there are no other texts, other words mean true and false as well.
        has_texts = any("string" in _listed(one.get("type", ())) for one in choices if one.get("pattern") != TRUTHS)
        has_texts |= any("enum" in one or "const" in one for one in choices)
        choices = [{"type": "boolean"} if has_texts and one.get("pattern") == TRUTHS else one for one in choices]
    rest = {key: value for key, value in made.items() if key != "anyOf"}
    if all(set(one) == {"type"} for one in choices):
        return {**rest, "type": _types(kind for one in choices for kind in _listed(one["type"]))}
    if choices[1:] == [NULL]:
        return or_null({**rest, **choices[0]})
    return {**rest, "anyOf": choices}


def or_null(made: Schema) -> Schema:
    """The schema of a value that may be missing."""
    if "anyOf" in made:
        return {**made, "anyOf": [*(one for one in made["anyOf"] if one != NULL), NULL]}
    if "type" in made and "enum" not in made and "const" not in made:
        return {**made, "type": _types([*_listed(made["type"]), "null"])}
    inside = made["allOf"][0] if "allOf" in made else {key: made[key] for key in made if key not in _ABOUT}
    return {**_about(made), "anyOf": [inside, NULL]}


def _about(made: Schema) -> Schema:
    """What is said about a value."""
    return {key: made[key] for key in _ABOUT if key in made}


def _listed(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else types


def _types(types: Any) -> list[str]:
    """Each type once; whole numbers are numbers."""
    found = list(dict.fromkeys(types))
    return [kind for kind in found if kind != "integer" or "number" not in found]


class _WithPatterns(GenerateJsonSchema):
    """Adds the regular expressions of validators, which pydantic does not know."""

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> Schema:
        """The schema of a value that a function checks."""
        return _with_pattern(super().function_after_schema(schema), schema["function"]["function"])

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> Schema:
        """The schema of a value that a function converts."""
        return _with_pattern(super().function_before_schema(schema), schema["function"]["function"])


def schema(version: SlurmVersion | None = None) -> Schema:
    """The schema of a cluster file with the keys of one Slurm; `None` for those of all supported versions."""
    made = Cluster.model_json_schema(by_alias=True, ref_template=_REFERENCE, schema_generator=_WithPatterns)
    definitions: dict[str, Schema] = made.pop("$defs")
    _add_slurms_keys(made, definitions, version)
    for name, field in Cluster.model_fields.items():
        one = made["properties"][str(field.validation_alias or name)]
        if model := may_be_left_out(field.annotation):
            needs = any(of_key.is_required() for of_key in model.model_fields.values())
            one["anyOf"].append({"type": "boolean", **({"const": False} if needs else {})})
    add_example(made, definitions)
    return {
        "$schema": DIALECT,
        "$comment": made_from(version),
        "title": "slurmfab cluster file",
        **for_editors(made),
        "definitions": {name: for_editors(one) for name, one in sorted(definitions.items())},
    }


def _with_pattern(made: Schema, function: Any) -> Schema:
    """The schema with the pattern of a validator, in the dialect of ECMA-262."""
    pattern = PATTERNS.get(function, "")
    return {**made, "pattern": f"^(?:{_GROUP_NAME.sub('(', pattern)})$"} if pattern else made


def _add_slurms_keys(top: Schema, definitions: Mapping[str, Schema], version: SlurmVersion | None) -> None:
    """Put Slurm's keys where the file has them: beside slurmfab's own, and in sections named as the files."""
    texts = {key: NODE[key] for key in KEYS_OF_GRES_CONF}
    node = {
        **_of_file(keys.NODE, NODE, NODE_KEYS_OF_SLURMFAB, version),
        **{key: _described(f"{text.meaning} gres.conf(5).", text.example) for key, text in texts.items()},
    }
    _add(definitions["NodeGroup"], node, version)
    _add(definitions["FutureNodes"], node, version)
    _add(definitions["Partition"], _of_file(keys.PARTITION, PARTITION, _OF_PARTITIONS, version), version)
    tables = {"Qos": limits.QOS, "Account": limits.ASSOCIATION, "User": (*limits.ASSOCIATION, *limits.USER)}
    for name, table in tables.items():
        _add(definitions[name], _of_limits(table, version), version)
    files: Iterable[tuple[str, Mapping[str, Key], Iterable[str]]] = (
        ("slurm_conf", keys.SLURM_CONF, SLURM_CONF_KEYS_OF_SLURMFAB),
        ("cgroup_conf", keys.CGROUP_CONF, ()),
        ("slurmdbd_conf", keys.SLURMDBD_CONF, SLURMDBD_CONF_KEYS_OF_SLURMFAB),
    )
    for section, known, owned in files:
        of_file = _of_file(known, {}, owned, version, file=section.replace("_", "."), nullable=True)
        _add(top["properties"][section], of_file, version, nullable=True)
    associations = definitions["User"]["properties"]["associations"]["patternProperties"]
    for pattern in associations:
        associations[pattern] = {"type": "object"}
        _add(associations[pattern], _of_limits(limits.ASSOCIATION, version), version)


def _add(model: Schema, added: Mapping[str, Schema], version: SlurmVersion | None, *, nullable: bool = False) -> None:
    """Add Slurm's keys to a mapping, in any case, as Slurm ignores it; keys of a Slurm from the future, too."""
    properties = model.setdefault("properties", {})
    properties.pop("settings", None)
    properties.update({name: one for name, one in added.items() if name not in properties})
    is_open = version is not None and not version.is_known
    others = _ANY_KEY if is_open else _in_any_case(name for name in added if name[0].isupper())
    model["patternProperties"] = {others: _setting(nullable=nullable)}
    model["additionalProperties"] = False


def _setting(*, nullable: bool = False) -> Schema:
    """A value of one of Slurm's keys."""
    return {"type": ["string", "number", "boolean", *(["null"] if nullable else [])]}


def _of_file(
    table: Mapping[str, Key],
    texts: Mapping[str, KeyText],
    owned: Iterable[str],
    version: SlurmVersion | None,
    *,
    file: str = "slurm.conf",
    nullable: bool = False,
) -> dict[str, Schema]:
    """The keys of one of Slurm's files that a version knows, without those that slurmfab writes itself."""
    own = {name.lower() for name in owned}
    found = {}
    for lower, key in table.items():
        if lower not in own and (version is None or not version.is_known or _knows(version, key)):
            text = texts.get(key.name, KeyText("", ""))
            words = (text.meaning, f"{file}(5){'' if text.meaning else f': {key.name}'}.", *versions_of(key))
            found[key.name] = _described(" ".join(filter(None, words)), text.example, nullable=nullable)
    return found


def _knows(version: SlurmVersion, key: Key) -> bool:
    """Whether a version has a key, and does not ignore it."""
    return key.since <= (version.major, version.minor) < min(key.until, key.ignored_from)


def versions_of(key: Key) -> Iterator[str]:
    """Yield from which version of Slurm on a key is known, and from which on it is not, as sentences."""
    if key.since > (22, 5):
        yield f"From Slurm {SlurmVersion(*key.since)} on."
    if min(key.until, key.ignored_from) < (99, 0):
        yield f"Before Slurm {SlurmVersion(*min(key.until, key.ignored_from))}."


def _of_limits(table: Iterable[Limit], version: SlurmVersion | None) -> dict[str, Schema]:
    """The limits of sacctmgr that a version knows, with all their names."""
    found = {}
    for limit in table:
        if version is None or limit.since <= (version.major, version.minor):
            text = LIMITS[limit.key.name]
            since = f" From Slurm {SlurmVersion(*limit.since)} on." if limit.since > (22, 5) else ""
            for name in (limit.key.name, *limit.others):
                same = f" The same as {limit.key.name}." if name != limit.key.name else ""
                found[name] = _described(f"{text.meaning} sacctmgr(1).{since}{same}", text.example)
    return found


def _described(description: str, example: str, *, nullable: bool = False) -> Schema:
    return {"description": description, **_setting(nullable=nullable), **({"examples": [example]} if example else {})}


def _in_any_case(names: Iterable[str]) -> str:
    """A regular expression for names in upper and lower case; those of Slurm's keys begin with a capital letter."""
    spelled = (
        name[0] + "".join(f"[{one.upper()}{one.lower()}]" if one.isalpha() else one for one in name[1:])
        for name in names
    )
    return f"^({'|'.join(spelled)})$"


class KeyText(NamedTuple):
    """What a key means, and a value that it may have."""

    meaning: str
    example: str


def _text(value: str) -> KeyText:
    """The text of a key, from `example | meaning`."""
    example, _, meaning = value.partition("|")
    return KeyText(meaning.strip(), example.strip())


_TEXTS: Mapping[str, Mapping[str, KeyText]] = {
    title: {key: _text(value) for key, value in keys.items()} for title, keys in read_table("key_texts.ini").items()
}
NODE, PARTITION, LIMITS = _TEXTS["node lines"], _TEXTS["partition lines"], _TEXTS["limits"]
