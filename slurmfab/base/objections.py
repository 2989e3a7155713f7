"""What is in the way of a run, and on whose word that rests: what one host says leaves out that host alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from slurmfab.base.errors import UNCHANGED, InputError, SlurmfabError
from slurmfab.base.hostlist import fold

VERSION = "version"  # what is no longer heard of a host: the version of Slurm that it says it has
NUMBERS = "numbers"  # or its users and groups


class Objection(NamedTuple):
    """What is in the way of a run because of what some hosts say."""

    hosts: tuple[str, ...]
    reason: str  # without the hosts' names in front
    # the hosts on whose word alone the value rests that is in the way of `hosts`, such as a number of a user
    proposers: tuple[str, ...] = ()
    about: str = ""  # what of their word is no longer heard then; empty for anything

    def __str__(self) -> str:
        return f"{fold(self.hosts)}: {self.reason}"

    def blamed(self, decisive: str, among: int) -> Mapping[str, str]:
        """The hosts without which it is gone, with reasons; empty if `decisive` or most `among` all hosts say so.

        Between few hosts, those that propose a value are blamed, unless fewer hosts are against it.
        """
        is_general = outweighs(self.hosts, decisive, among)
        is_proposed = bool(self.proposers) and not outweighs(self.proposers, decisive, among)
        if is_proposed and (is_general or len(self.proposers) <= len(self.hosts)):
            return dict.fromkeys(self.proposers, f"what it says is in the way of the other hosts. {self}")
        return {} if is_general else dict.fromkeys(self.hosts, self.reason)


def outweighs(hosts: Collection[str], decisive: str, among: int) -> bool:
    """Whether what some hosts say counts for all: the decisive host is one of them, or they are most of all."""
    return decisive in hosts or len(hosts) * 2 > among


def objected(
    found: Iterable[Objection | str], ways: Iterable[str] = (UNCHANGED,), kind: type[SlurmfabError] = InputError
) -> None:
    """Stop, by an error of this kind with a line for each, if there are any. `ways`: the lines after them."""
    complaints = [*found]
    if complaints:
        error = kind("\n".join([*dict.fromkeys(map(str, complaints)), *ways]))
        error.objections = tuple(one for one in complaints if isinstance(one, Objection))
        error.ways = tuple(way for way in ways if way != UNCHANGED)
        raise error
