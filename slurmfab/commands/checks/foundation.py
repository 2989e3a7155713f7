"""A mark for checks of services that every job needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Check = TypeVar("Check", bound=Callable[..., None])
ATTRIBUTE = "is_foundation"


def foundation(check: Check) -> Check:
    """Mark a check of a service that every job needs: the other checks send no job to a host where it failed.

    Slurm would start the job there, where it would hang and take the node out of service.
    """
    setattr(check, ATTRIBUTE, True)
    return check


def is_foundation(check: Any) -> bool:
    """Whether a check is marked with `foundation`."""
    return bool(getattr(check, ATTRIBUTE, False))
