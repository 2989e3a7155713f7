"""What checks derive from the cluster file and the lock: once for all hosts, so that time grows as their number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm import render
from slurmfab.commands.checks.results import Verdict
from slurmfab.commands.checks.wanted import conf, files

Look = Callable[..., Verdict]


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What Slurm's files are rendered from, each time."""
    found, usual = [], render.render

    def noting(values: Any, *more: Any, **named: Any) -> Any:
        found.append(values)
        return usual(values, *more, **named)

    monkeypatch.setattr(render, "render", noting)
    return found


def test_files_when_checked_on_further_hosts_then_are_not_rendered_again(look: Look, rendered: list[object]) -> None:
    look("daemons", "system", hosts=("ctl",))
    alone = len(rendered)
    look("daemons", "system")
    assert len(rendered) <= alone


def test_files_when_the_lock_is_another_one_then_are_those_of_that_lock(known: Inventory) -> None:
    before = files(known.cluster, known.lock)
    assert files(known.cluster, known.lock) is before
    assert files(known.cluster, replace(known.lock, slurm="")) == {}
    assert conf(known.cluster, replace(known.lock, slurm="")) == {}
    assert files(known.cluster, known.lock) == before
    assert conf(known.cluster, known.lock)["clustername"] == "tiny"
