"""Values as JSON: dataclasses and named tuples are objects, with their fields or with the keys that they list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

Class = TypeVar("Class", bound=type)


class Key(NamedTuple):
    """A key of an object that is not simply a field."""

    name: str
    of: str = ""  # the attribute that has its value, such as `run.job.name`; empty where it has the key's name
    digits: int | None = None  # to which a number is rounded; `None` for all
    form: Callable[[Any], Any] | None = None  # makes the value out of the attribute; its type is that of the key
    optional: bool = False  # whether it is left out where the attribute is `None`
    text: str = ""  # what its schema says about it; empty for what the class says about the attribute

    @property
    def attribute(self) -> str:
        """The attribute that has its value."""
        return self.of or self.name


_LISTED: dict[type, tuple[Key, ...]] = {}  # the keys of classes that list them


def shows(*keys: str | Key) -> Callable[[Class], Class]:
    """A decorator: as JSON, a class has these keys in this order, and not simply its fields.

    `reference/json_schemas.py` makes the schema of it, by the types and the texts of fields and properties.
    """

    def listed(kind: Class) -> Class:
        _LISTED[kind] = tuple(Key(key) if isinstance(key, str) else key for key in keys)
        return kind

    return listed


@cache
def keys_of(kind: type) -> tuple[Key, ...]:
    """The keys that a class has as JSON; none for one that is no object there."""
    if kind in _LISTED:
        return _LISTED[kind]
    if is_dataclass(kind):
        return tuple(Key(one.name) for one in fields(kind))
    return tuple(map(Key, getattr(kind, "_fields", ())))


def as_json(value: Any) -> Any:
    """A value as JSON has it."""
    kind: type = type(value)
    if keys := keys_of(kind):
        found = ((key, attrgetter(key.attribute)(value)) for key in keys)
        return {key.name: _written(one, key) for key, one in found if not (key.optional and one is None)}
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def _written(value: Any, key: Key) -> Any:
    if key.form:
        value = key.form(value)
    return as_json(value) if key.digits is None or value is None else round(value, key.digits)
