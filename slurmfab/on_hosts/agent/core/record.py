"""Immutable values with named fields, like frozen dataclasses, in classes that are fast to define.

For each class, Python's dataclasses generate the source text of methods and compile it, and they import slow modules.
On a host that took a fifth of the processor time of an agent with nothing to change (Python 3.13).
"""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable, ClassVar, FrozenSet, Mapping, Tuple

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Do nothing; type checkers use the name to treat records as dataclasses."""
        return lambda kind: kind


class AsDataclass:
    """The attribute that makes records dataclasses for `dataclasses` and pydantic, computed at first access."""

    def __get__(self, record: object, kind: Any) -> Mapping[str, Any]:
        """The fields of a class of records, in the form that `dataclasses.fields` reads."""
        return dataclass_fields(kind)


@functools.lru_cache(maxsize=None)
def dataclass_fields(kind: Any) -> Mapping[str, Any]:
    """The fields of a class of records, computed once for each class."""
    import dataclasses

    hints = {
        name: hint for one in reversed(kind.__mro__) for name, hint in vars(one).get("__annotations__", {}).items()
    }
    defaults = {
        name: dataclasses.field(default=getattr(kind, name)) for name in kind.OPEN_AFTER[0] - kind.NEEDED_AFTER[0]
    }
    given = [(name, hints[name], defaults.get(name, dataclasses.field())) for name in kind.FIELDS]
    made: Mapping[str, Any] = vars(dataclasses.make_dataclass(kind.__name__, given))["__dataclass_fields__"]
    return made


@dataclass_transform(frozen_default=True)
class Record:
    """The base class of immutable values with named fields, which are compared, shown and hashed by their fields.

    The fields are the annotated names of the base classes and then of the class, except `ClassVar`s. A field that is
    not given has the value of the class attribute.
    """

    __dataclass_fields__: ClassVar[Any] = AsDataclass()

    FIELDS: ClassVar[Tuple[str, ...]] = ()
    UNSHOWN: ClassVar[Tuple[str, ...]] = ()  # fields that `repr` omits: secrets and long texts

    OPEN_AFTER: ClassVar[Tuple[FrozenSet[str], ...]] = (frozenset(),)
    NEEDED_AFTER: ClassVar[Tuple[FrozenSet[str], ...]] = (frozenset(),)
    """The fields that can (`OPEN_AFTER`) and must be given by name, indexed by the number of positional values.

    For a record with `path` and `mode = 0o644`: without positional values, `{path, mode}` can and `{path}` must be
    given; after one positional value, the path, `{mode}` can be given and nothing must.
    """

    VALUES: ClassVar[Any] = attrgetter("FIELDS")  # returns the values by which records are compared

    def __init_subclass__(cls) -> None:
        """Collect the fields of a class."""
        own = (name for name, hint in cls.__annotations__.items() if not hint.startswith("ClassVar"))
        cls.FIELDS = tuple(dict.fromkeys((*cls.FIELDS, *own)))
        rests = [cls.FIELDS[count:] for count in range(len(cls.FIELDS) + 1)]
        cls.OPEN_AFTER = tuple(frozenset(rest) for rest in rests)
        cls.NEEDED_AFTER = tuple(frozenset(name for name in rest if not hasattr(cls, name)) for rest in rests)
        cls.VALUES = attrgetter("FIELDS", *cls.FIELDS)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Set the fields by position or name; TypeError if one is missing, given twice or unknown."""
        # Set one by one, so that records share one table of names: a plan for thousands of hosts has many records.
        place, count = object.__setattr__, len(values)
        for name, value in zip(self.FIELDS, values):  # noqa: B905 - zip(strict=) is Python 3.10's
            place(self, name, value)
        for name, value in named.items():
            place(self, name, value)
        if count > len(self.FIELDS) or not self.NEEDED_AFTER[count] <= named.keys() <= self.OPEN_AFTER[count]:
            message = "%s has the fields %s, but other fields were given: %d without a name, by name %s"
            raise TypeError(message % (type(self).__name__, ", ".join(self.FIELDS), count, ", ".join(named) or "none"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("%s never changes" % type(self).__name__)

    def __delattr__(self, name: str) -> None:
        raise AttributeError("%s never changes" % type(self).__name__)

    def __eq__(self, other: object) -> bool:
        return self.VALUES(self) == self.VALUES(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.VALUES(self))

    def __repr__(self) -> str:
        shown = ("%s=%r" % (name, getattr(self, name)) for name in self.FIELDS if name not in self.UNSHOWN)
        return "%s(%s)" % (type(self).__name__, ", ".join(shown))
