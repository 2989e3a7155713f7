"""docs/tutorial.md, played from its first command, which starts the lab: what it prints is what comes.

`SLURMFAB_REGENERATE=1 pytest tests/lab/test_tutorial.py` writes the outputs of this run into it. With `TURN=all` it is
also played with the older Slurm, whose outputs are not compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import guide
import pytest
from guide_player import ROOT, Player, complaint, play, player_of

pytestmark = pytest.mark.lab

TUTORIAL = ROOT / "docs" / "tutorial.md"
SHOWN = "trixie"
"""The suite whose outputs the tutorial shows."""

PLAYED = (SHOWN, "bookworm") if os.environ["TURN"] == "all" else (SHOWN,)


@pytest.fixture(params=PLAYED)
def player(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Player]:
    with player_of(guide.read(TUTORIAL.read_text()), tmp_path) as person:
        yield replace(person, suite=request.param)


def test_the_tutorial_when_followed_then_every_command_prints_what_it_shows(player: Player) -> None:
    if player.suite == SHOWN:
        play(player, TUTORIAL)
        return
    wrong = player.follow(guide.read(TUTORIAL.read_text()))
    failed = [complaint(one) for one in wrong.items() if "[exit code" in one[1]]
    assert not failed, "\n\n".join(failed)
