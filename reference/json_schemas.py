"""JSON schemas of the types of JSON outputs: classes as `slurmfab.base.json_output` shows them, typed dictionaries."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from slurmfab.base.json_output import Key, keys_of

DRAFT = "https://json-schema.org/draft/2020-12/schema"

PLAIN: Mapping[Any, Mapping[str, str]] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
"""The schemas of what is made of nothing else."""

Schema = dict[str, Any]

_ENTRY = re.compile(r"^    (\w+): (.*)$")
_FIELD = re.compile(r"    (\w+): ")
_MORE = re.compile(r"^        (\S.*)$")


@dataclass
class Maker:
    """Makes schemas, and remembers those of the types that they refer to.

    Args:
        is_closed: whether no keys are allowed that the types do not have. What is published allows them, since a newer
            slurmfab may tell more.
        definitions: schemas of objects by name.
        made: of which classes each of them is.
    """

    is_closed: bool = False
    definitions: dict[str, Schema] = field(default_factory=dict)
    made: dict[str, tuple[type, ...]] = field(default_factory=dict)

    def document(self, kind: type) -> Schema:
        """The schema of a whole output."""
        reference = self.schema(kind)
        return {"$schema": DRAFT, **reference, "$defs": dict(sorted(self.definitions.items()))}

    def schema(self, hint: Any) -> Schema:
        """The schema of a type.

        Raises:
            TypeError: JSON has no such thing.
        """
        if hint in PLAIN:
            return dict(PLAIN[hint])
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"type": "string"}
        if is_typeddict(hint) or (isinstance(hint, type) and keys_of(hint)):
            return self.reference(hint.__name__, (hint,))
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is ClassVar:
            return self.schema(arguments[0])
        if origin is Annotated:
            kinds = [one for one in arguments[1:] if isinstance(one, type)]
            return self.annotated(kinds) if kinds else self.schema(arguments[0])
        return self.compound(origin, arguments)

    def compound(self, origin: Any, arguments: Sequence[Any]) -> Schema:
        """The schema of a type that is made of others.

        Raises:
            TypeError: JSON has no such thing.
        """
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.schema(one) for one in arguments]}
        if origin in (list, tuple):
            return {"type": "array", "items": self.schema(arguments[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        raise TypeError(f"{origin}: JSON has no such thing")

    def annotated(self, kinds: Sequence[type]) -> Schema:
        """The schema of a dictionary that `asdict` has made of these classes, one after the other."""
        return self.reference(kinds[0].__name__, kinds)

    def reference(self, name: str, kinds: Sequence[type]) -> Schema:
        """A reference to the schema of an object, which is made if it is not there yet.

        Raises:
            TypeError: there is one of this name that means something else.
        """
        name = name.removesuffix("Json")
        if self.made.setdefault(name, tuple(kinds)) != tuple(kinds):
            raise TypeError(f"{name}: two types of this name are in one output")
        if name not in self.definitions:
            self.definitions[name] = {}  # a type may have itself among its keys
            self.definitions[name] = self.object_schema(kinds)
        return {"$ref": f"#/$defs/{name}"}

    def object_schema(self, kinds: Sequence[type]) -> Schema:
        """The schema of an object with the keys of these classes."""
        properties = {key: schema for kind in kinds for key, schema in self.properties(kind).items()}
        required = [key for kind in kinds for key in required_keys(kind)]
        closed = {"additionalProperties": False} if self.is_closed else {}
        about = (inspect.getdoc(kinds[0]) or "").partition("\n\n")[0]
        return {"description": " ".join(about.split()), "type": "object", "properties": properties,
                "required": sorted(required, key=list(properties).index), **closed}  # fmt: skip

    def properties(self, kind: type) -> dict[str, Schema]:
        """The schemas of an object's keys, each with what its class says about it."""
        if not is_typeddict(kind):
            return {key.name: self.of_key(kind, key) for key in keys_of(kind)}
        texts = {key: text for base in reversed(family(kind)) for key, text in key_texts(base).items()}
        hints = get_type_hints(kind, None, names_in(kind.__module__), include_extras=True)
        return {name: self.described(self.schema(hints[name]), texts.get(name, "")) for name in in_order(kind)}

    def of_key(self, kind: type, key: Key) -> Schema:
        """The schema of a key that a class lists."""
        *path, last = key.attribute.split(".")
        for name in path:
            (kind,) = without_none(attribute(kind, name)[0])
        hint, text = attribute(kind, last)
        if isinstance(key.form, type):
            hint = key.form
        elif key.form:
            hint = get_type_hints(key.form).get("return", hint)
        some = without_none(hint) if key.optional else (hint,)
        return self.described(self.schema(some[0]), key.text or text)

    def described(self, schema: Schema, text: str) -> Schema:
        """A schema with a text about what it describes."""
        return {"description": text.removesuffix("."), **schema} if text else schema


def required_keys(kind: type) -> Sequence[str]:
    """The keys that are always there."""
    if is_typeddict(kind):
        return sorted(kind.__required_keys__)  # type: ignore[attr-defined]
    return [key.name for key in keys_of(kind) if not key.optional]


def without_none(hint: Any) -> tuple[Any, ...]:
    """The types of a union but for `None`; a type that is no union, alone."""
    is_union = get_origin(hint) in (Union, types.UnionType)
    return tuple(one for one in get_args(hint) if one is not type(None)) if is_union else (hint,)


def attribute(kind: type, name: str) -> tuple[Any, str]:
    """The type of a field or property, and what its class says about it."""
    for one in kind.__mro__:
        found = vars(one).get(name)
        function = found.func if isinstance(found, cached_property) else getattr(found, "fget", None)
        if function:
            text = (inspect.getdoc(function) or "").partition("\n")[0]
            is_word = text[1:2].islower() or text[1:2] == " "
            hints = get_type_hints(function, None, names_in(one.__module__), include_extras=True)
            return hints["return"], text[:1].lower() + text[1:] if is_word else text
        if name in vars(one).get("__annotations__", {}):
            hints = get_type_hints(one, None, names_in(one.__module__), include_extras=True)
            return hints[name], key_texts(one).get(name, "")
    raise TypeError(f"{kind.__name__} has no {name}")


@cache
def names_in(module: str) -> dict[str, Any]:
    """The names in a module, those that it imports for type checks alone among them."""
    loaded = import_module(module)
    checked = [one for one in ast.parse(inspect.getsource(loaded)).body if isinstance(one, ast.If)]
    imports = [line for one in checked for line in one.body if isinstance(line, ast.ImportFrom) and line.module]
    names = [(str(one.module), alias.name) for one in imports for alias in one.names]
    return {**{name: getattr(import_module(place), name, None) for place, name in names}, **vars(loaded)}


@cache
def definition(kind: type) -> ast.ClassDef:
    """A class as it is written; a typed dictionary itself does not know what it is made of."""
    found = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[-1]
    assert isinstance(found, ast.ClassDef)
    return found


def family(kind: type) -> tuple[type, ...]:
    """A class and those that it is made of."""
    names = [base.id for base in definition(kind).bases if isinstance(base, ast.Name)]
    known = names_in(kind.__module__)
    return (kind, *(more for name in names if is_typeddict(known[name]) for more in family(known[name])))


def in_order(kind: type) -> list[str]:
    """The keys of a typed dictionary: `version` first, then those of the class itself, then those of its bases."""
    names = [
        line.target.id
        for one in family(kind)
        for line in definition(one).body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    ]
    return sorted(dict.fromkeys(names), key=lambda name: name != "version")


def key_texts(kind: type) -> dict[str, str]:
    """What a class says about each key: in its docstring's section `Args`, or in a comment at the key's line.

    >>> key_texts(Maker)["is_closed"][:32]
    'whether no keys are allowed that'
    """
    found: dict[str, str] = {}
    name = ""
    for line in (inspect.getdoc(kind) or "").partition("Args:\n")[2].splitlines():
        if entry := _ENTRY.match(line):
            name = entry[1]
            found[name] = entry[2]
        elif name and (more := _MORE.match(line)):
            found[name] += f" {more[1]}"
        else:
            break
    return found | commented(kind)


def commented(kind: type) -> dict[str, str]:
    """The comments of a class's fields: behind a field, or on the lines above it."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in textwrap.dedent(inspect.getsource(kind)).splitlines():
        code, mark, comment = line.partition("# ")
        if field := _FIELD.match(code):
            found |= {field[1]: comment} if mark else {field[1]: " ".join(above)} if above else {}
        above = [*above, comment] if mark and not code.strip() else []
    return found
