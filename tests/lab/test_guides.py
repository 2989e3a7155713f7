"""The guides of docs/guides, played on lab hosts: what they print is what comes.

Each day plays about half of them; `TURN=all` plays all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import guide
import pytest
from guide_player import ROOT, Player, play, player_of
from suites import SUITES

pytestmark = pytest.mark.lab

GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def in_turn(guides: list[Path]) -> list[Path]:
    """The guides of a day: every other one, and the others the day after."""
    turn = os.environ["TURN"]
    return guides if turn == "all" else guides[int(turn) % len(SUITES) :: len(SUITES)]


def named(path: Path) -> str:
    """The test's name for a guide; by the suite in it, the guides are distributed over processes."""
    return f"{path.stem}-{guide.read(path.read_text()).lab['suite']}"


@pytest.fixture
def player(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Player]:
    with player_of(guide.read(request.param.read_text()), tmp_path) as person:
        yield person


@pytest.mark.parametrize(
    ("path", "player"), [pytest.param(path, path, id=named(path)) for path in in_turn(GUIDES)], indirect=["player"]
)
def test_a_guide_when_followed_then_every_command_prints_what_it_shows(path: Path, player: Player) -> None:
    play(player, path)
