"""Plays a share of the table of breakages in a run of all tests."""

from __future__ import annotations

import os

import pytest
from table import rows, share


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the rows of other shares, unless somebody selects tests by name."""
    seed = "all" if config.option.keyword else os.environ["TURN"]
    chosen = {row.name for row in share(rows(), seed)} | {""}
    config.hook.pytest_deselected(items=[item for item in items if name_of(item) not in chosen])
    items[:] = [item for item in items if name_of(item) in chosen]


def name_of(item: pytest.Item) -> str:
    """Name of the row that a test plays; empty for other tests."""
    call = getattr(item, "callspec", None)
    return call.params["row"].name if call and hasattr(call.params.get("row"), "what") else ""
