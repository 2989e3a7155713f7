"""The page about security names tests that exist, so that each attack on it is played."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
TEST = re.compile(r"`(tests/[\w./-]+\.py)(?:::(\w+))?`")


def test_every_test_that_the_page_names_is_there() -> None:
    named = TEST.findall(PAGE)
    assert len(named) == PAGE.count("`tests/") - PAGE.count("`tests/lab`")
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]
    assert missing == []


def test_every_row_of_a_table_on_the_page_is_played_by_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = [row for row in rows if row.endswith("| test |")]
    assert len(rows) - len(heads) > 100
    assert [row for row in rows if row not in heads and not TEST.search(row.rpartition(" | ")[2])] == []


def test_the_page_says_of_each_role_whom_it_becomes_and_whom_not() -> None:
    table = PAGE.partition("| role | becomes | does not become | test |\n")[2].partition("\n\n")[0]
    roles = [row.split(" | ")[0].removeprefix("| ").split(" (")[0].split(",")[0] for row in table.splitlines()[1:]]
    assert roles == [
        "A user",
        "A coordinator of an account",
        "An operator of Slurm",
        "An administrator of Slurm",
        "Root of a node",
        "Root of a login host",
        "slurm on the controller",
        "The owner of a backup",
    ]


def test_each_role_is_played_on_lab_hosts_and_no_play_of_roles_is_left_out() -> None:
    table = PAGE.partition("| role | becomes | does not become | test |\n")[2].partition("\n\n")[0]
    for row in table.splitlines()[1:]:
        assert "`tests/lab/" in row.rpartition(" | ")[2], row[:60]
    for file in ("test_who_becomes_what.py", "test_slurm_user.py"):
        played = re.findall(r"^def (test_\w+)", (ROOT / "tests/lab" / file).read_text(), re.MULTILINE)
        assert f"`tests/lab/{file}`" in PAGE or [one for one in played if one not in PAGE] == []
