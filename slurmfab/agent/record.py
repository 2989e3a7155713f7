"""Values with named fields, as those of frozen dataclasses, in classes that cost next to nothing to make.

Python's dataclasses write the source text of methods for each class and compile it, and first import what inspects
source texts. On a host that was a fifth of all that an agent with nothing to change cost (Python 3.13).
"""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable, ClassVar, FrozenSet, Mapping, Tuple

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Nothing: only type checkers are told that records are made as dataclasses are."""
        return lambda kind: kind


class AsDataclass:
    """What the functions of `dataclasses` ask for, and pydantic, so that records are dataclasses to them.

    It is made when it is asked for, which happens nowhere on a host.
    """

    def __get__(self, record: object, kind: Any) -> Mapping[str, Any]:
        """The fields of a class of records, as `dataclasses.fields` finds those of a dataclass."""
        return dataclass_fields(kind)


@functools.lru_cache(maxsize=None)
def dataclass_fields(kind: Any) -> Mapping[str, Any]:
    """The fields of a class of records, made once for each class."""
    import dataclasses  # noqa: PLC0415 - see above

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
    """The base of values with named fields, which are compared, shown and hashed by these, and never change.

    The fields are the annotated names of a class and those of its bases before them, except for `ClassVar`s. What is
    not given to a record is not kept with it: the default value is the class's.
    """

    __dataclass_fields__: ClassVar[Any] = AsDataclass()

    FIELDS: ClassVar[Tuple[str, ...]] = ()
    UNSHOWN: ClassVar[Tuple[str, ...]] = ()
    """Fields that `repr` leaves out: secrets, or long texts."""

    OPEN_AFTER: ClassVar[Tuple[FrozenSet[str], ...]] = (frozenset(),)
    NEEDED_AFTER: ClassVar[Tuple[FrozenSet[str], ...]] = (frozenset(),)
    """The fields that may, and that must, be given by name after none, one, two, ... values without a name.

    Of a record with `path` and `mode = 0o644`, after no value `{path, mode}` may be given and `{path}` must be; after
    one value, which is the path, `{mode}` may be, and nothing must be.
    """

    VALUES: ClassVar[Any] = attrgetter("FIELDS")
    """Gives what tells records of a class apart."""

    def __init_subclass__(cls) -> None:
        """Find a class's fields."""
        own = (name for name, hint in cls.__annotations__.items() if not hint.startswith("ClassVar"))
        cls.FIELDS = tuple(dict.fromkeys((*cls.FIELDS, *own)))
        rests = [cls.FIELDS[count:] for count in range(len(cls.FIELDS) + 1)]
        cls.OPEN_AFTER = tuple(frozenset(rest) for rest in rests)
        cls.NEEDED_AFTER = tuple(frozenset(name for name in rest if not hasattr(cls, name)) for rest in rests)
        cls.VALUES = attrgetter("FIELDS", *cls.FIELDS)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Take the fields in their order, by name, or both.

        Raises:
            TypeError: these are not the fields.
        """
        # One by one, so that records share the table of their names: a plan for thousands of hosts holds many.
        place, count = object.__setattr__, len(values)
        for name, value in zip(self.FIELDS, values):  # noqa: B905 - zip(strict=) is Python 3.10's
            place(self, name, value)
        for name, value in named.items():
            place(self, name, value)
        if count > len(self.FIELDS) or not self.NEEDED_AFTER[count] <= named.keys() <= self.OPEN_AFTER[count]:
            words = "%s has the fields %s, and not exactly these were given: %d without a name, %s"
            raise TypeError(words % (type(self).__name__, ", ".join(self.FIELDS), count, ", ".join(named) or "none"))

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
