"""Rounds: all ways of a scenario one after the other, again and again, so that each round sees the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks import machine
from benchmarks.programs import ProgramFailed
from benchmarks.results import Sample

Say = Callable[[str], None]

MOST_STOLEN = 0.03
"""A round in which other machines had a larger part of this machine's processor time is measured again."""

SHOWN = 0.001
"""The least part that is worth a remark."""


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


@dataclass(frozen=True)
class Round:
    """A round that was measured, by way; `stolen` is the part of processor time that other machines had meanwhile."""

    number: int
    samples: Mapping[str, Sample]
    stolen: float

    @property
    def is_spoiled(self) -> bool:
        """Whether another machine disturbed it."""
        return self.stolen > MOST_STOLEN


@dataclass
class Measured:
    """The rounds of a scenario, and the peers that failed, with the reason."""

    rounds: list[Round] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> list[Round]:
        """The rounds that no other machine disturbed; all of them if there is none."""
        return [one for one in self.rounds if not one.is_spoiled] or self.rounds

    @property
    def samples(self) -> dict[str, list[Sample]]:
        """The samples of the rounds that count, by way."""
        found: dict[str, list[Sample]] = {}
        for one in self.counted:
            for way, sample in one.samples.items():
                if way not in self.dropped:
                    found.setdefault(way, []).append(sample)
        return found

    @property
    def disturbance(self) -> str:
        """What other machines took of the processors; empty if nothing."""
        most = max((one.stolen for one in self.counted), default=0.0)
        out = [one for one in self.rounds if one not in self.counted]
        left = f"; {len(out)} of {len(self.rounds)} rounds are left out, which lost more" if out else ""
        return (
            f"other machines took up to {most:.1%} of processor time in a round{left}" if most >= SHOWN or out else ""
        )


def measure(
    ways: Iterable[Way],
    rounds: int,
    say: Say,
    *,
    limit: float,
    warm_ups: int = 0,
    peer_rounds: int = 0,
    clock: Callable[[], float] = time.monotonic,
    ticks: Callable[[], tuple[int, int]] = machine.ticks,
) -> Measured:
    """Go through all ways in each round; a round that another machine spoiled is measured again, up to twice as many.

    Args:
        ways: in the order of a round.
        limit: seconds after which no other round begins; the first one is always measured.
        warm_ups: rounds beforehand that do not count, for caches of files and of compiled Python; peers have none.
        peer_rounds: in how many of them, from the first, peers take part, who can take minutes; 0 for all.

    Returns:
        As many samples for each way as there were whole rounds; fewer for peers where they had fewer.

    Raises:
        ProgramFailed: slurmfab, or a floor, did not do its work.
    """
    begun, measured, all_ways = clock(), Measured(), tuple(ways)
    for number in range(1 - warm_ups, 2 * rounds + 1):
        whole = sum(not one.is_spoiled for one in measured.rounds)
        if whole >= rounds:
            break
        if number > 1 and clock() - begun > limit:
            say(f"after {clock() - begun:.0f} s no other round begins: {whole} of {rounds} are measured")
            break
        peers = 0 < number <= (peer_rounds or 2 * rounds)
        before = ticks()
        samples = one_round(
            all_ways, f"round {number}" if number > 0 else "warm-up", say, measured.dropped, peers=peers
        )
        total, stolen = (now - then for now, then in zip(ticks(), before, strict=True))
        if number > 0:
            measured.rounds.append(done := Round(number, samples, stolen / max(total, 1)))
            if done.is_spoiled:
                say(f"round {number}: other machines took {done.stolen:.1%} of processor time; it does not count")
    return measured


def one_round(
    ways: Iterable[Way], name: str, say: Say, dropped: dict[str, str], *, peers: bool
) -> Mapping[str, Sample]:
    """All ways once; a peer that fails is added to those that are dropped, with the reason."""
    samples: dict[str, Sample] = {}
    for way in ways:
        if way.is_peer and (way.name in dropped or not peers):
            continue
        try:
            samples[way.name] = once(way)
        except ProgramFailed as error:
            if not way.is_peer:
                raise
            dropped[way.name] = str(error)
            say(f"{name}: {way.name} is left out: {error}")
            continue
        say(f"{name}: {way.name}: {samples[way.name].seconds:.3f} s")
    return samples


def once(way: Way) -> Sample:
    """One way, once, with what comes before and after it."""
    way.before()
    sample = way.work()
    way.after()
    return sample
