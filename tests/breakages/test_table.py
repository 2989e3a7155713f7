"""The table of breakages is long enough, its names are unique, and docs/checks.md shows it as it is."""

from __future__ import annotations

import re

from breakage import HOSTS, Breakage, Oddity, Setting, Told
from table import PAGE, SHARES, page, rows, share


def test_the_table_has_a_hundred_breakages_and_twenty_oddities() -> None:
    assert len([row for row in rows() if isinstance(row, Breakage | Setting)]) >= 100
    assert len([row for row in rows() if isinstance(row, Oddity)]) >= 20


def test_a_name_is_used_once_and_is_a_name_of_a_test() -> None:
    names = [row.name for row in rows()]
    assert [name for name in names if names.count(name) > 1 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_a_breakage_is_found_by_the_checks_or_by_the_plan() -> None:
    found = [row for row in rows() if isinstance(row, Breakage)]
    assert [row.name for row in found if not row.check and not row.plan] == []
    assert [row.name for row in found if row.host not in HOSTS] == []


def test_what_is_not_mended_is_no_success_and_has_words_and_a_repair() -> None:
    told = [row for row in rows() if isinstance(row, Breakage) and isinstance(row.deploy, Told)]
    for row in told:
        assert isinstance(row.deploy, Told)
        assert row.deploy.exit_code != 0, row.name
        assert row.deploy.words, row.name
        assert row.deploy.repair, row.name


def test_the_shares_of_a_round_of_runs_are_all_rows_on_all_their_suites() -> None:
    played = {(row.name, suite) for seed in range(SHARES) for row, suite in share(rows(), str(seed))}
    assert played == {(row.name, suite) for row in rows() for suite in row.suites}
    assert {(row.name, suite) for row, suite in share(rows(), "all")} == played
    assert all(len(share(rows(), str(seed))) * SHARES < len(played) + 4 * SHARES for seed in range(SHARES))


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text() == page(), "run: python tests/breakages/table.py"
