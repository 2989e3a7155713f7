"""What checks raise where they do not apply, or for drift; and the mark of those that every job needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Check = TypeVar("Check", bound=Callable[..., None])
ATTRIBUTE = "is_foundation"


class DoesNotApply(Exception):
    """The check has no result here: it has neither passed, nor is anything left that could be run.

    `pytest.skip` is for a check that could not be run although its sentence is about this host.
    """


class Unasked:
    """In place of a host, or of Slurm, that a check is not to ask: it has a name, and any question ends the check."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"{self.name} is not asked for {name}.")


class Drifted(AssertionError):
    """A check failed because it found drift; the message begins with the kind of drift.

    Args:
        kind: one of the constants of `slurmfab.core.impact.drift_kinds`.
        message: the cause, then ` Repair: ` and the repair.
        sign: what was seen, where more than one thing is; see `resting`.
    """

    def __init__(self, kind: str, message: str, sign: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.sign = sign


class Seen(AssertionError):
    """A check failed, and saw something of which `resting` knows what explains it, or what it explains.

    Args:
        sign: a word for what was seen.
        message: the cause, then ` Repair: ` and the repair.
    """

    def __init__(self, sign: str, message: str) -> None:
        super().__init__(message)
        self.sign = sign


def kind_of(error: BaseException) -> str:
    """The kind of drift in a check's error; empty if the error is not drift."""
    return error.kind if isinstance(error, Drifted) else ""


def sign_of(error: BaseException) -> str:
    """What a check saw that failed; empty where nothing was told."""
    return error.sign if isinstance(error, Drifted | Seen) else ""


def foundation(check: Check) -> Check:
    """Mark a check of a service that every job needs: the others send no job to a host where it failed."""
    setattr(check, ATTRIBUTE, True)
    return check


def is_foundation(check: Any) -> bool:
    """Whether a check is marked with `foundation`."""
    return bool(getattr(check, ATTRIBUTE, False))
