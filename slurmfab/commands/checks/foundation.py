"""A mark for checks of services that every job needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Check = TypeVar("Check", bound=Callable[..., None])
ATTRIBUTE = "is_foundation"


def foundation(check: Check) -> Check:
    """Mark a check of a service that every job needs: the others send no job to a host where it failed."""
    setattr(check, ATTRIBUTE, True)
    return check


def is_foundation(check: Any) -> bool:
    """Whether a check is marked with `foundation`."""
    return bool(getattr(check, ATTRIBUTE, False))
