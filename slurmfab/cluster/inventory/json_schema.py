"""The JSON schema of a cluster file, made from the models: what editors complete, explain and mark.

It is the one source of the reference of keys, too (`key_reference.py`). It refuses less than the models do, since rules
between keys are not in it, and accepts what they accept. Its dialect is draft 7, which all editors know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from slurmfab.cluster.inventory import key_examples
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.editor_schema import Schema, for_editors
from slurmfab.cluster.inventory.schema_version import made_from
from slurmfab.cluster.inventory.slurm_settings import (
    NODE_KEYS_OF_SLURMFAB,
    SLURM_CONF_KEYS_OF_SLURMFAB,
    SLURMDBD_CONF_KEYS_OF_SLURMFAB,
)
from slurmfab.cluster.inventory.values import PATTERNS
from slurmfab.cluster.slurm import key_texts, keys, limits
from slurmfab.cluster.slurm.gres import KEYS_OF_GRES_CONF
from slurmfab.cluster.slurm.key_texts import KeyText
from slurmfab.cluster.slurm.keys import Key
from slurmfab.cluster.slurm.limits import Limit
from slurmfab.cluster.slurm.versions import SlurmVersion

DIALECT = "http://json-schema.org/draft-07/schema#"
_REFERENCE = "#/definitions/{model}"
_ANY_KEY = "^[A-Z][A-Za-z0-9_]*$"
_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_OF_PARTITIONS = ("PartitionName", "Nodes")


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
    key_examples.add(made, definitions)
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
    node = {**_of_file(keys.NODE, key_texts.NODE, NODE_KEYS_OF_SLURMFAB, version), **_of_gres_conf()}
    _add(definitions["NodeGroup"], node, version)
    _add(definitions["Partition"], _of_file(keys.PARTITION, key_texts.PARTITION, _OF_PARTITIONS, version), version)
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


def _of_gres_conf() -> dict[str, Schema]:
    """The keys of gres.conf that a group of nodes may have."""
    texts = {key: key_texts.NODE[key] for key in KEYS_OF_GRES_CONF}
    return {key: _described(f"{text.meaning} gres.conf(5).", text.example) for key, text in texts.items()}


def _of_limits(table: Iterable[Limit], version: SlurmVersion | None) -> dict[str, Schema]:
    """The limits of sacctmgr that a version knows, with all their names."""
    found = {}
    for limit in table:
        if version is None or limit.since <= (version.major, version.minor):
            text = key_texts.LIMITS[limit.key.name]
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
