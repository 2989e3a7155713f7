"""The line that is on a terminal before anything slow is loaded."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from terminals import at_a_terminal, words_on

from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.options import Common

CLUSTER = """\
cluster: lab
controllers: [c1]
addresses: {c1: 10.0.0.1}
nodes: [{hosts: "n[1-4]"}]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLURMFAB_CLUSTER", raising=False)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/cluster.yaml").write_text(CLUSTER)
    (tmp_path / "one.yaml").write_text(CLUSTER.replace('"n[1-4]"', "c1"))
    return tmp_path


def name_cluster(task: str, cluster: str = "", hosts: str = "") -> None:
    TASKS[task].name_cluster(Common(cluster), {"hosts": hosts})


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (("deploy", "", ""), "deploy: configs/cluster.yaml, 5 hosts"),
        (("plan", "one.yaml", ""), "plan: one.yaml, 1 host"),
        (("deploy", "", "n[1-2]"), "deploy: configs/cluster.yaml, 5 hosts; here n[1-2]"),
        (("drain", "", "n3"), "drain: configs/cluster.yaml, 5 hosts; here n3"),
        (("deploy", "new.yaml", "c1,n1"), "deploy: first contact with c1,n1"),
        (("deploy", "new.yaml", ""), ""),
        (("history", "", ""), ""),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_task_when_somebody_looks_on_then_names_its_cluster_file_and_hosts(
    monkeypatch: pytest.MonkeyPatch, called: tuple[str, str, str], told: str
) -> None:
    shown = at_a_terminal(monkeypatch, "")
    name_cluster(*called)
    assert words_on(shown) == told


@pytest.mark.usefixtures("here")
def test_a_task_when_its_output_goes_to_a_file_then_begins_with_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    name_cluster("deploy")
    assert shown.getvalue() == ""


def test_a_cluster_file_when_it_is_broken_then_is_named_without_a_number(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "configs/cluster.yaml").write_text("cluster: [")
    shown = at_a_terminal(monkeypatch, "")
    name_cluster("plan")
    assert words_on(shown) == "plan: configs/cluster.yaml"
