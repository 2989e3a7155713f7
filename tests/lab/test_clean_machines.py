"""The README and the tutorial, typed as they stand there on a new Debian machine, from the first command to the last.

Nothing is known but the pages: what they say to type is typed, in their order, and what the tutorial shows as printed
is compared. `make test` is left out, which plays these tests. A look-alike of Ubuntu has the README's commands typed by
its user, with `make test-fast` as well.
"""

from __future__ import annotations

from pathlib import Path

import guide
import pytest
import tried
from clean_machine import Newcomer, clean_machine
from guide_player import ROOT, play
from stock import in_turn
from suites import LIKE

pytestmark = [pytest.mark.lab, pytest.mark.parametrize("suite", in_turn("clean_machines"))]

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"


def test_the_readme_when_typed_then_the_demo_passes_twice_and_slurmfab_is_installed(suite: str, tmp_path: Path) -> None:
    demo = guide.typed(README.read_text(), "Try it on one Debian or Ubuntu machine")
    with clean_machine(suite, tmp_path) as machine:
        for line in demo:
            if line.command != "make test":
                machine.types(line.command, line.remark)
        for command in ("make demo", "make demo-down"):
            machine.types(command)
        if LIKE:
            machine.types("make test-fast", patience=1800)
        for line in guide.typed(README.read_text(), "On your own hosts"):
            machine.types(line.command, line.remark)
            if "open a new shell" in line.remark:
                machine.new_shell()
                break
        assert "deploy" in machine.types("slurmfab --list")
    tried.note_followed("README.md", LIKE or suite)


def test_the_tutorial_when_typed_then_every_command_prints_what_it_shows(suite: str, tmp_path: Path) -> None:
    with clean_machine(suite, tmp_path, cached="trixie") as machine:
        for line in guide.typed(TUTORIAL.read_text(), "1. Four machines"):
            machine.types(line.command)
        play(Newcomer.on(machine, machine.types("pwd").strip()), TUTORIAL)
    tried.note_followed("docs/tutorial.md", suite)
