"""What a scenario is: a name, a row of the table, and the ways that are measured in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.access import Access
from benchmarks.clusters import Labs
from benchmarks.measuring import Say, Way
from benchmarks.peers import Peer
from benchmarks.results import Target

SLURMFAB = "slurmfab"
SSH_TRUE = "ssh true"
SSH_CHEAP = "ssh true, curve25519"
CHEAP = ("-o", "KexAlgorithms=curve25519-sha256")
"""The classic key exchange. OpenSSH's own choice (9.0 to 9.9: sntrup761) can cost a client ten times as much."""


def floors(hosts: Access, at_once: int = 0) -> tuple[Way, Way]:
    """One login on every host by plain OpenSSH clients: as they are, and with the cheapest key exchange.

    Args:
        hosts: where.
        at_once: how many clients run at a time; all of them when 0.
    """
    return (
        Way(SSH_TRUE, lambda: hosts.everywhere("true", at_once=at_once)),
        Way(SSH_CHEAP, lambda: hosts.everywhere("true", *CHEAP, at_once=at_once)),
    )


@dataclass
class Setting:
    """What a scenario is given to set its stage with.

    Args:
        labs: starts hosts; only scenarios that say so may ask it.
        peers: other tools that are there; none where they are left out.
        directory: for small files.
        say: told what goes on.
        rounds: how many rounds there will be, warm-ups included.
        skipped: ways that were left out, with the reason; a scenario may add some.
    """

    labs: Labs
    peers: tuple[Peer, ...]
    directory: Path
    say: Say
    rounds: int
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """One row of the table.

    Args:
        name: for the command line and the file of its result.
        title: what it measures.
        ways: sets the stage and gives the ways, in the order of a round.
        targets: the figures that it is about.
        needs_hosts: whether it starts lab hosts, which only root can.
        warm_ups: rounds that do not count.
        minutes: after which no other round begins.
        rounds: how many rounds are measured, unless somebody says otherwise.
        peer_rounds: in how many of them peers take part; 0 for all.
        notes: what a reader has to know about its numbers.
        tidy: what is done when it has ended, however.
    """

    name: str
    title: str
    ways: Callable[[Setting], Iterable[Way]]
    targets: tuple[Target, ...]
    needs_hosts: bool = True
    warm_ups: int = 1
    minutes: float = 10
    rounds: int = 5
    peer_rounds: int = 2
    notes: tuple[str, ...] = ()
    tidy: Callable[[Setting], None] = lambda _: None
