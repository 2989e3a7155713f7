"""What is the same for all hosts of a situation is worked out once, and not for each of ten thousand again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from slurmfab.situation import Situation

More = ParamSpec("More")
Value = TypeVar("Value")


def once(find: Callable[Concatenate[Situation, More], Value]) -> Callable[Concatenate[Situation, More], Value]:
    """A pure function of a situation that works its value out when it is first asked; the situation keeps it.

    What `functools.cached_property` is to a class, this is to the phases, each of which asks about a situation what no
    other module has to know. Hosts whose resources are equal thus have the very same ones.

    Args:
        find: gives the same for the same arguments, which can be hashed, and changes nothing.
    """

    @wraps(find)
    def found(situation: Situation, /, *more: More.args, **named: More.kwargs) -> Value:
        # Where cached_property keeps its values as well; a situation that is replaced begins without any.
        values = vars(situation).setdefault("found once", {})
        question = (find, more, tuple(named.items()))
        if question not in values:
            values[question] = find(situation, *more, **named)
        return cast("Value", values[question])

    return found
