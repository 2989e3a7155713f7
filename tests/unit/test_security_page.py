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


def test_every_attack_on_the_page_is_played_by_a_test() -> None:
    attacks = PAGE.partition("| attack |")[2]
    rows = [line for line in attacks.splitlines() if line.startswith("| ") and not line.startswith("| attack |")]
    assert len(rows) > 50
    assert [row for row in rows if not TEST.search(row.rpartition(" | ")[2])] == []
