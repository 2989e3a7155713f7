"""Lists in messages: the first of many."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.core.listing import first_of, listed


@pytest.mark.parametrize(
    ("texts", "first", "told"),
    [
        ("", [], ""),
        ("ab", ["a", "b"], "a, b"),
        ("abc", ["a", "b", "c"], "a, b, c"),
        ("abcde", ["a", "b", "c", "and 2 more"], "a, b, c and 2 more"),
    ],
)
def test_texts_when_there_are_more_than_shall_be_told_then_the_others_are_counted(
    texts: str, first: list[str], told: str
) -> None:
    assert first_of(texts, 3) == first
    assert listed(texts, 3) == told


def test_a_list_when_the_reader_can_see_the_rest_elsewhere_then_says_where() -> None:
    assert first_of("abc", 1, "; --json has them all") == ["a", "and 2 more; --json has them all"]
