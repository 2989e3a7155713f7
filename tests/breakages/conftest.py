"""Plays a share of the table of breakages in a run of all tests."""

from __future__ import annotations

import os

import pytest
from suites import SUITES
from table import rows, share, share_of_sentences


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the rows of other shares, unless somebody selects tests by name."""
    seed = "all" if config.option.keyword else os.environ["TURN"]
    chosen = {(row.name, suite) for row, suite in share(rows(), seed)}
    chosen |= share_of_sentences(seed, SUITES) | {("", "")}
    config.hook.pytest_deselected(items=[item for item in items if played_by(item) not in chosen])
    items[:] = [item for item in items if played_by(item) in chosen]


def played_by(item: pytest.Item) -> tuple[str, str]:
    """Name of the row that a test plays, and the suite; empty for other tests."""
    call = getattr(item, "callspec", None)
    if call and hasattr(call.params.get("sentence"), "check"):
        return call.params["sentence"].check, call.params["suite"]
    is_row = call and hasattr(call.params.get("row"), "what")
    return (call.params["row"].name, call.params["suite"]) if call and is_row else ("", "")
