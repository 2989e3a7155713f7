"""A sentence of a check that is made false on a host, and the check that has to fail for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Falsified:
    """A row: somebody makes the sentence of a check false; the check fails there, and passes when it is true again.

    Args:
        check: group and name of the check, as in `munge.key_is_safe`.
        on: the host whose result counts.
        what: what makes the sentence false, for people.
        how: text for `sh -c` as root that does it.
        back: the same for putting it right.
        says: words of the cause.
        at: the host on which `how` and `back` run; empty for `on`.
        needs: further words for `--only`, of checks on which this one relies.
    """

    check: str
    on: str
    what: str
    how: str
    back: str
    says: str
    at: str = ""
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The check's name without its group and account."""
        return self.check.split(".")[1]

    @property
    def place(self) -> str:
        """The host on which the sentence is made false."""
        return self.at or self.on
