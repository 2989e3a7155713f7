"""Marks the checks that jobs rest on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Check = TypeVar("Check", bound=Callable[..., None])
MARK = "is_foundation"


def foundation(check: Check) -> Check:
    """A check that jobs rest on: where it has failed, none is sent.

    Slurm would not know better than to start one there, and a job on a node without a daemon hangs and takes the node
    out of service.
    """
    setattr(check, MARK, True)
    return check


def is_foundation(check: Any) -> bool:
    """Whether jobs rest on a check."""
    return bool(getattr(check, MARK, False))
