"""Which lab tests a run of all tests plays."""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = Path(__file__).parents[1] / "lab"
FILES = sorted(path.stem for path in LAB.glob("test_*.py"))


@pytest.fixture
def conftest(request: pytest.FixtureRequest) -> object:
    """The module tests/conftest.py, which has been loaded by pytest."""
    (found,) = (
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(LAB.parent / "conftest.py")
    )
    return found


def played(conftest: object, turn: int) -> set[str]:
    """The lab files that a run plays at a turn."""
    rests = conftest.is_resting
    return {file for file in FILES if not rests(file, f"tests/lab/{file}.py::test_it", str(turn))}


def test_lab_files_when_all_turns_have_passed_then_each_was_played_with_either_suite(conftest: object) -> None:
    for suite in (0, 1):
        found = [played(conftest, turn) for turn in range(2 * conftest.SHARES) if turn % 2 == suite]
        assert set.union(*found) == set(FILES)


def test_lab_files_when_one_turn_is_played_then_those_that_are_always_played_are_there(conftest: object) -> None:
    always = {f"test_{name}" for name in conftest.EVERY_TIME} & set(FILES)
    assert all(always <= played(conftest, turn) for turn in range(2 * conftest.SHARES))
    assert len(always) > len(conftest.EVERY_TIME) / 2


def test_lab_files_when_all_are_asked_for_then_none_rests(conftest: object) -> None:
    assert not any(conftest.is_resting(file, f"tests/lab/{file}.py::test_it", "all") for file in FILES)
    assert not conftest.is_resting("test_report", "tests/unit/test_report.py::test_it", "0")
