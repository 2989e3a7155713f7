"""The error that a check raises for drift, with the kind of drift."""

from __future__ import annotations


class Drifted(AssertionError):
    """A check failed because it found drift; the message begins with the kind of drift.

    Args:
        kind: one of the constants of `slurmfab.core.impact.drift_kinds`.
        message: the cause, then ` Repair: ` and the repair.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def kind_of(error: BaseException) -> str:
    """The kind of drift in a check's error; empty if the error is not drift."""
    return error.kind if isinstance(error, Drifted) else ""
