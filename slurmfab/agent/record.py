"""Values with named fields, as those of frozen dataclasses, in classes that cost next to nothing to make.

Python's dataclasses write the source text of methods for each class and compile it, and first import what inspects
source texts. On a host that was a fifth of all that an agent with nothing to change cost (Python 3.13).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Mapping, Tuple

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Nothing: only type checkers are told that records are made as dataclasses are."""
        return lambda kind: kind


class Fields:
    """What the functions of `dataclasses` ask for, and pydantic, so that records are dataclasses to them.

    It is made when it is asked for, which happens nowhere on a host.
    """

    def __get__(self, record: object, kind: Any) -> Mapping[str, Any]:
        """The fields of a class of records, as `dataclasses.fields` finds those of a dataclass."""
        return dataclass_fields(kind)


@functools.lru_cache(maxsize=None)
def dataclass_fields(kind: Any) -> Mapping[str, Any]:
    """The same."""
    import dataclasses  # noqa: PLC0415 - see above

    hints = {
        name: hint for one in reversed(kind.__mro__) for name, hint in vars(one).get("__annotations__", {}).items()
    }
    defaults = {name: dataclasses.field(default=value) for name, value in kind.DEFAULTS.items()}
    given = [(name, hints[name], defaults.get(name, dataclasses.field())) for name in kind.FIELDS]
    made: Mapping[str, Any] = vars(dataclasses.make_dataclass(kind.__name__, given))["__dataclass_fields__"]
    return made


@dataclass_transform(frozen_default=True)
class Record:
    """The base of values with named fields, which are compared, shown and hashed by these, and never change.

    The fields are the annotated names of a class and those of its bases before them, except for `ClassVar`s.
    """

    __dataclass_fields__: ClassVar[Any] = Fields()

    FIELDS: ClassVar[Tuple[str, ...]] = ()
    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    UNSHOWN: ClassVar[Tuple[str, ...]] = ()
    """Fields that `repr` leaves out: secrets, or long texts."""

    def __init_subclass__(cls) -> None:
        """Find a class's fields and their default values."""
        own = (name for name, hint in cls.__annotations__.items() if not hint.startswith("ClassVar"))
        cls.FIELDS = tuple(dict.fromkeys((*cls.FIELDS, *own)))
        cls.DEFAULTS = {name: getattr(cls, name) for name in cls.FIELDS if hasattr(cls, name)}

    def __init__(self, *values: Any, **named: Any) -> None:
        """Take the fields in their order, by name, or both.

        Raises:
            TypeError: these are not the fields.
        """
        placed = dict(zip(self.FIELDS, values))  # noqa: B905 - zip(strict=) is Python 3.10's
        state = {**self.DEFAULTS, **placed, **named}
        wrong = (state.keys() ^ set(self.FIELDS)) | (placed.keys() & named.keys())
        if wrong or len(values) > len(self.FIELDS):
            words = "%s has the fields %s; unknown, missing or given twice: %s"
            raise TypeError(
                words % (type(self).__name__, ", ".join(self.FIELDS), ", ".join(sorted(wrong)) or "the last")
            )
        vars(self).update(state)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("%s never changes" % type(self).__name__)

    def __delattr__(self, name: str) -> None:
        raise AttributeError("%s never changes" % type(self).__name__)

    def _values(self) -> Tuple[Any, ...]:
        """The values of all fields, in their order."""
        return tuple(getattr(self, name) for name in self.FIELDS)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        shown = ("%s=%r" % (name, getattr(self, name)) for name in self.FIELDS if name not in self.UNSHOWN)
        return "%s(%s)" % (type(self).__name__, ", ".join(shown))
