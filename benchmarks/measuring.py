"""Rounds: all ways of a scenario one after the other, again and again, so that each round sees the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.programs import ProgramFailed
from benchmarks.results import Sample

Say = Callable[[str], None]


def nothing() -> None:
    """Nothing."""


@dataclass(frozen=True)
class Way:
    """One way to do the work of a scenario.

    Args:
        name: as in the table.
        work: does it once and tells what it took.
        before: makes ready for one round; not measured.
        after: sees that the work was really done; not measured.
        is_peer: whether it is somebody else's tool: when that fails, it is left out, and the others go on.
    """

    name: str
    work: Callable[[], Sample]
    before: Callable[[], None] = nothing
    after: Callable[[], None] = nothing
    is_peer: bool = False


@dataclass
class Measured:
    """The samples of a scenario, as they come in.

    Args:
        samples: by way.
        dropped: peers that failed, with the reason.
    """

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)


def measure(
    ways: Iterable[Way],
    rounds: int,
    say: Say,
    *,
    limit: float,
    warm_ups: int = 0,
    peer_rounds: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Go through all ways in each round.

    Args:
        ways: in the order of a round.
        rounds: how many are measured.
        say: told each sample in a line.
        limit: seconds after which no other round begins; the first one is always measured.
        warm_ups: rounds beforehand that do not count, for caches of files and of compiled Python; peers have none.
        peer_rounds: in how many of them, from the first, peers take part, who can take minutes; 0 for all.
        clock: what tells the time.

    Returns:
        As many samples for each way as there were whole rounds; fewer for peers where they had fewer.

    Raises:
        ProgramFailed: slurmfab, or a floor, did not do its work.
    """
    begun, measured, all_ways = clock(), Measured(), tuple(ways)
    for number in range(1 - warm_ups, rounds + 1):
        if number > 1 and clock() - begun > limit:
            say(f"after {clock() - begun:.0f} s no other round begins: {number - 1} of {rounds} are measured")
            break
        name = f"round {number}" if number > 0 else "warm-up"
        for way in all_ways:
            if way.is_peer and (way.name in measured.dropped or not 0 < number <= (peer_rounds or rounds)):
                continue
            try:
                sample = once(way)
            except ProgramFailed as error:
                if not way.is_peer:
                    raise
                measured.dropped[way.name] = str(error)
                measured.samples.pop(way.name, None)
                say(f"{name}: {way.name} is left out: {error}")
                continue
            say(f"{name}: {way.name}: {sample.seconds:.3f} s")
            if number > 0:
                measured.samples.setdefault(way.name, []).append(sample)
    return measured


def once(way: Way) -> Sample:
    """One way, once, with what comes before and after it."""
    way.before()
    sample = way.work()
    way.after()
    return sample
