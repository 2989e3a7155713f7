"""Values and lists as Slurm's files spell them."""

from __future__ import annotations

import pytest

from slurmfab.errors import InputError
from slurmfab.slurm.spelling import assignment, fold_in_order, unfolded


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["n1"], "n1"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n010"], "n[9,010]"),
        (["n3", "n1", "n2"], "n[3,1-2]"),
        (["a1", "b1", "a2"], "a1,b1,a2"),
        (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
        (["gate", "gate1"], "gate,gate1"),
        (["fd00::9", "fd00::a", "fd00::10"], "fd00::9,fd00::a,fd00::10"),
    ],
)
def test_names_fold_in_their_order(names: list[str], folded: str) -> None:
    assert fold_in_order(names) == folded


def test_a_value_with_blanks_is_quoted_once() -> None:
    assert assignment("Reason", "new board") == 'Reason="new board"'
    assert assignment("Reason", '"new board"') == 'Reason="new board"'
    assert assignment("Weight", "5") == "Weight=5"


def test_a_value_with_a_line_break_is_refused() -> None:
    with pytest.raises(InputError, match="Reason: its value holds a line break"):
        assignment("Reason", "one\nSlurmUser=root")


@pytest.mark.parametrize(
    ("files", "each"),
    [
        ("/dev/nvidia[0-1,3]", ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3")),
        ("/dev/a[08-10], /dev/b", ("/dev/a08", "/dev/a09", "/dev/a10", "/dev/b")),
        ("/dev/nvidia[0-", ("/dev/nvidia[0-",)),
    ],
)
def test_device_files_unfold_as_slurm_reads_them(files: str, each: tuple[str, ...]) -> None:
    assert unfolded(files) == each
