"""JSON schemas of the types of JSON outputs: typed dictionaries, dataclasses, named tuples, with their docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

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
        if is_typeddict(hint) or is_dataclass(hint) or is_named_tuple(hint):
            return self.reference(hint.__name__, (hint,))
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.annotated(arguments[1:])
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
        return self.reference("".join(kind.__name__ for kind in kinds), kinds)

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
        texts = {key: text for base in reversed(family(kind)) for key, text in key_texts(base).items()}
        hints = get_type_hints(kind, vars(sys.modules[kind.__module__]), known_types(), include_extras=True)
        names = in_order(kind) if is_typeddict(kind) else own_fields(kind)
        return {name: self.described(self.schema(hints[name]), texts.get(name, "")) for name in names}

    def described(self, schema: Schema, text: str) -> Schema:
        """A schema with a text about what it describes."""
        return {"description": text.removesuffix("."), **schema} if text else schema


def required_keys(kind: type) -> Sequence[str]:
    """The keys that are always there: all of a dataclass or a named tuple."""
    return sorted(kind.__required_keys__) if is_typeddict(kind) else own_fields(kind)  # type: ignore[attr-defined]


def own_fields(kind: type) -> list[str]:
    """The fields of a dataclass or a named tuple."""
    return [one.name for one in fields(kind)] if is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]


def is_named_tuple(kind: Any) -> bool:
    """Whether a type is a named tuple, of which a dictionary is made before it is written."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


@cache
def definition(kind: type) -> ast.ClassDef:
    """A class as it is written; a typed dictionary itself does not know what it is made of."""
    found = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[-1]
    assert isinstance(found, ast.ClassDef)
    return found


def family(kind: type) -> tuple[type, ...]:
    """A class and those that it is made of."""
    names = [base.id for base in definition(kind).bases if isinstance(base, ast.Name)]
    known = {**known_types(), **vars(sys.modules[kind.__module__])}
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


@cache
def known_types() -> dict[str, Any]:
    """The typed dictionaries of all loaded modules, by name: some modules import others' for type checks alone.

    Names that several modules have are left out, as each of these modules means its own.
    """
    found: dict[str, set[Any]] = {}
    for module in [module for name, module in sorted(sys.modules.items()) if name.startswith("slurmfab.")]:
        for name, value in vars(module).items():
            if name.endswith("Json") and is_typeddict(value):
                found.setdefault(name, set()).add(value)
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}
