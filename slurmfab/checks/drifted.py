"""How a check says that what it found is drift, and of which kind."""

from __future__ import annotations


class Drifted(AssertionError):
    """A failed check that has found drift; its message begins with the kind.

    Args:
        kind: one of `slurmfab.kinds_of_drift`.
        message: what is wrong, and why, then `Repair: ` and what to do.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def kind_of(error: BaseException) -> str:
    """The kind of drift that a check has found; empty when it is none."""
    return error.kind if isinstance(error, Drifted) else ""
