"""Keys and values as Slurm's files spell them."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.slurm.node_lines import assignment


def test_a_value_with_blanks_is_quoted_once() -> None:
    assert assignment("Reason", "new board") == 'Reason="new board"'
    assert assignment("Reason", '"new board"') == 'Reason="new board"'
    assert assignment("Weight", "5") == "Weight=5"


def test_a_value_with_a_line_break_is_refused() -> None:
    with pytest.raises(InputError, match="Reason: its value contains a line break"):
        assignment("Reason", "one\nSlurmUser=root")
