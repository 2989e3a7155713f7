"""The JSON schema that pydantic makes of a model, changed into what editors should complete, explain and mark.

An editor reads YAML 1.2 itself: for it `cluster: 2024` is a number and `x11: yes` a text, which the models take as text
and as true. A key without a value counts as a missing key. Titles and empty defaults would only be noise.
"""

from __future__ import annotations

import json
import re
from typing import Any

Schema = dict[str, Any]

TRUTHS = "^([Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff])$"  # words that are read as true and false besides these two

NULL: Schema = {"type": "null"}
_ABOUT = ("description", "markdownDescription", "default", "examples")
_UNSHOWN = ("title", "ge", "le", "default", "required", "properties")
"""`ge` and `le` are pydantic's, of a number that is a text in the file."""


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
        # Only where true and false are all that there is, other words mean them as well.
        choices = [{"type": "boolean"} if one.get("pattern") == TRUTHS else one for one in choices]
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
