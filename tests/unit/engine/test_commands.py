"""`fab plan` from the hosts' answers to its last line, its JSON and its exit code."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support import MUNGE_KEY, THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import DeployFailed
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.core.engine import commands
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import DeployOptions


def plan(folder: Path, monkeypatch: pytest.MonkeyPatch, **differing: Any) -> tuple[int, dict[str, Any]]:
    """The exit code of a plan, and its JSON."""
    path = folder / "cluster.yaml"
    path.write_text(THREE_HOSTS)
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY)
    run = run_over(FakeHosts(facts, **differing), cluster(), path=path, command="plan")
    monkeypatch.setattr(commands, "start", lambda *_, **__: run)
    code = commands.plan(str(path), DeployOptions(), "", ConnectionOptions(), Output(json=str(folder / "plan.json")))
    return code, json.loads((folder / "plan.json").read_text())


@pytest.mark.parametrize(
    ("differing", "code"),
    [
        ({}, 0),
        ({"wrong": {"n1": {"service:slurmd"}}}, 4),
        ({"losing": {"n2": 1}}, 3),
        ({"wrong": {"n1": {"service:slurmd"}}, "losing": {"n2": 1}}, 3),
    ],
)
def test_a_plans_json_has_the_exit_code_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differing: dict[str, Any], code: int
) -> None:
    ended, told = plan(tmp_path, monkeypatch, **differing)
    assert (ended, told["exit_code"]) == (code, code)


def test_a_plan_without_its_controller_ends_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeployFailed):
        plan(tmp_path, monkeypatch, losing={"c1": 1})
