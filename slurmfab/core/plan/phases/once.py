"""A cache for values that are the same for all hosts of a plan input, so that ten thousand hosts share them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from slurmfab.core.plan.plan_input import PlanInput

More = ParamSpec("More")
Value = TypeVar("Value")


def once(find: Callable[Concatenate[PlanInput, More], Value]) -> Callable[Concatenate[PlanInput, More], Value]:
    """Decorator that caches the values of a pure function of a plan input in the plan input itself.

    It works like `functools.cached_property`, for functions outside the class. Hosts with equal resources then share
    the same objects. `find`: a pure function; its arguments after the plan input have to be hashable.
    """

    @wraps(find)
    def found(plan_input: PlanInput, /, *more: More.args, **named: More.kwargs) -> Value:
        # cached_property keeps its values there too; a copy made by `replace` starts with an empty cache.
        values = vars(plan_input).setdefault("found once", {})
        question = (find, more, tuple(named.items()))
        if question not in values:
            values[question] = find(plan_input, *more, **named)
        return cast("Value", values[question])

    return found
