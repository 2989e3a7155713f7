"""The README's first commands, typed as they stand there on a machine on which nothing is installed.

The machine has a lab's base tree already, to save two minutes; `test_clean_machines.py` begins with nothing.
"""

from __future__ import annotations

from pathlib import Path

import guide
import pytest
from clean_machine import clean_machine
from guide_player import ROOT
from stock import in_turn

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("suite", in_turn("front_door"))
def test_the_readme_when_its_first_commands_are_typed_on_a_new_machine_then_the_demo_passes(
    suite: str, tmp_path: Path
) -> None:
    lines = guide.typed((ROOT / "README.md").read_text(), "Try it on one Debian or Ubuntu machine")
    with clean_machine(suite, tmp_path, cached="trixie") as machine:
        said = {line.command: machine.types(line.command) for line in lines if line.command != "make test"}
        assert "checks passed" in said["make demo"]
        assert not [line for line in said["make demo"].splitlines() if "warning" in line.lower()]
        assert said["make demo-down"].endswith("lab demo: removed\n")
