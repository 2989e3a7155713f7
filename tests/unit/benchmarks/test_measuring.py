"""Rounds of the benchmarks: their order, what counts, when they end, and who may fail."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, chain, count, pairwise, repeat

import pytest

from benchmarks.measuring import Way, measure
from benchmarks.programs import ProgramFailed
from benchmarks.results import Sample

LONG = 1e9


class Journal:
    """Ways that write down in which order things happen."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.said: list[str] = []

    def way(self, name: str, *, fails_in_round: int = 0, is_peer: bool = False) -> Way:
        rounds = count(1)

        def work() -> Sample:
            self.lines.append(name)
            number = next(rounds)
            if number == fails_in_round:
                raise ProgramFailed(f"{name} is broken")
            return Sample(float(number))

        return Way(
            name,
            work,
            lambda: self.lines.append(f"before {name}"),
            lambda: self.lines.append(f"after {name}"),
            is_peer=is_peer,
        )


def test_ways_when_measured_in_rounds_then_take_turns_each_with_what_comes_before_and_after() -> None:
    journal = Journal()
    found = measure([journal.way("floor"), journal.way("ours")], 2, journal.said.append, limit=LONG)
    one_round = ["before floor", "floor", "after floor", "before ours", "ours", "after ours"]
    assert journal.lines == one_round * 2
    assert found.samples == {"floor": [Sample(1.0), Sample(2.0)], "ours": [Sample(1.0), Sample(2.0)]}


def test_a_warm_up_when_done_then_does_not_count() -> None:
    journal = Journal()
    found = measure([journal.way("ours")], 2, journal.said.append, limit=LONG, warm_ups=1)
    assert found.samples == {"ours": [Sample(2.0), Sample(3.0)]}
    assert [line.split(":")[0] for line in journal.said] == ["warm-up", "round 1", "round 2"]


def test_rounds_when_the_time_is_over_then_end_after_a_whole_one() -> None:
    journal = Journal()
    clock = count(0, 10).__next__
    found = measure([journal.way("floor"), journal.way("ours")], 9, journal.said.append, limit=15, clock=clock)
    assert {way: len(samples) for way, samples in found.samples.items()} == {"floor": 2, "ours": 2}
    assert "2 of 9 are measured" in journal.said[-1]


def test_rounds_when_the_first_one_takes_all_the_time_then_are_one() -> None:
    journal = Journal()
    found = measure([journal.way("ours")], 9, journal.said.append, limit=0, clock=count().__next__)
    assert len(found.samples["ours"]) == 1


def test_a_peer_when_it_has_fewer_rounds_then_takes_part_in_the_first_ones_and_in_no_warm_up() -> None:
    journal = Journal()
    ways = [journal.way("ours"), journal.way("peer", is_peer=True)]
    found = measure(ways, 3, journal.said.append, limit=LONG, warm_ups=1, peer_rounds=2)
    assert {way: len(samples) for way, samples in found.samples.items()} == {"ours": 3, "peer": 2}
    assert journal.lines.count("peer") == 2


@pytest.mark.parametrize("in_round", [1, 2])
def test_a_peer_when_it_fails_then_is_left_out_and_the_others_go_on(in_round: int) -> None:
    journal = Journal()
    ways = [journal.way("ours"), journal.way("peer", fails_in_round=in_round, is_peer=True)]
    found = measure(ways, 3, journal.said.append, limit=LONG)
    assert found.dropped == {"peer": "peer is broken"}
    assert list(found.samples) == ["ours"]
    assert journal.lines.count("peer") == in_round


def test_slurmfab_or_a_floor_when_it_fails_then_ends_the_scenario() -> None:
    journal = Journal()
    with pytest.raises(ProgramFailed, match="ours is broken"):
        measure([journal.way("ours", fails_in_round=2)], 3, journal.said.append, limit=LONG)


def stealing(*parts: int) -> Callable[[], tuple[int, int]]:
    """A clock of processor time: rounds of 100 ticks, of which other machines take so many, and none after these."""
    sums = list(accumulate(chain(parts, repeat(0, 9)), initial=0))
    looks = ((100 * number, stolen) for pair in enumerate(pairwise(sums)) for number, stolen in numbered(*pair))
    return lambda: next(looks)


def numbered(number: int, sums: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """A round's two looks: how many rounds are over, and the stolen ticks."""
    return (number, sums[0]), (number + 1, sums[1])


def test_a_round_when_another_machine_took_processor_time_then_is_left_out_and_measured_again() -> None:
    journal = Journal()
    found = measure([journal.way("floor"), journal.way("ours")], 2, journal.said.append, limit=LONG,
                    ticks=stealing(0, 12))  # fmt: skip
    assert found.samples == {"floor": [Sample(1.0), Sample(3.0)], "ours": [Sample(1.0), Sample(3.0)]}
    assert "round 2: other machines took 12.0% of processor time; it does not count" in journal.said
    assert found.disturbance == (
        "other machines took up to 0.0% of processor time in a round; 1 of 3 rounds are left out, which lost more"
    )


def test_rounds_when_another_machine_spoils_all_then_count_all_the_same_and_the_result_says_so() -> None:
    found = measure([Journal().way("ours")], 2, lambda _: None, limit=LONG, ticks=stealing(*repeat(5, 4)))
    assert len(found.samples["ours"]) == 4
    assert found.disturbance == "other machines took up to 5.0% of processor time in a round"


def test_rounds_when_other_machines_took_nothing_then_the_result_has_no_remark() -> None:
    assert measure([Journal().way("ours")], 2, lambda _: None, limit=LONG, ticks=stealing()).disturbance == ""
