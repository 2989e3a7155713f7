"""What fits at the cursor, for each kind of value."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import argcomplete
import pytest
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext

from slurmfab.cli import completion
from slurmfab.cli.tasks import TASKS, namespace

CLUSTER = """\
cluster: lab
addresses: {"n[1-3]": "10.0.0.[1-3]", spare: 10.0.0.9}
controllers: [ctl]
database: {host: db}
login: login01
nodes:
  - hosts: n[1-2]
  - hosts: [n3, "g[1-2]"]
partitions:
  - {PartitionName: batch, Nodes: ALL}
  - {PartitionName: gpu, Nodes: "g[1-2]"}
accounts: [{name: physics}]
users: [{name: ann}, {name: bob}]
acceptance: {memory: {target: 1}, hpcc: {}}
"""
CORE = ParserContext(args=[Argument(names=("help", "h"), optional=True), Argument(names=("search-root", "r"))])


Asked = Callable[[str], list[str]]


class Done(BaseException):
    """argcomplete has answered."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a cluster file, which is the home as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SLURMFAB_CLUSTER", raising=False)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/cluster.yaml").write_text(CLUSTER)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What a shell is offered at the end of a line."""

    def end(_code: int) -> None:
        raise Done

    def answer(line: str) -> list[str]:
        for name, value in {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("_ARGCOMPLETE_SUPPRESS_SPACE", "1")
        out = io.StringIO()
        finder = argcomplete.CompletionFinder()
        monkeypatch.setattr(
            finder, "_init_debug_stream", lambda: setattr(argcomplete.io, "debug_stream", io.StringIO())
        )
        with pytest.raises(Done):
            finder(completion.parser_of(namespace, CORE), False, end, out)
        return out.getvalue().split("\013") if out.getvalue() else []

    return answer


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dep", ["deploy"]),
        ("check-", ["check-cluster", "check-gpus"]),
        ("rehearse --po", ["--power-cut"]),
        ("deploy --acc", ["--accept-new-host-keys"]),
        ("deploy --hosts ", ["ctl", "db", "login01", "n1", "n2", "n3", "g1", "g2", "spare"]),
        ("deploy --hosts=n", ["--hosts=n1", "--hosts=n2", "--hosts=n3"]),
        ("deploy --hosts n1,n", ["n1,n2", "n1,n3"]),
        ("deploy --hosts n[1,2],g", ["n\\[1,2\\],g1", "n\\[1,2\\],g2"]),
        ("deploy --hosts n[1,", []),
        ("drain ", ["n1", "n2", "n3", "g1", "g2"]),
        ("drain --reason new g", ["g1", "g2"]),
        ("drain n1 --wa", ["--wait"]),
        ("add-node x1 --partition b", ["batch"]),
        ("add-node x1 --like g", ["g1", "g2"]),
        ("add-user eve --account ", ["physics"]),
        ("remove-user ", ["ann", "bob"]),
        ("accept --only memory,", ["memory,hpcc"]),
        ("check-cluster --only munge,clo", ["munge,clock"]),
        ("check-cluster --only ow", ["own"]),
        ("drill --drills lin", ["link"]),
        ("deploy --become ", ["sudo", "none"]),
        ("deploy --allow SlurmdSpool", ["SlurmdSpoolDir"]),
        ("ssh lo", ["login01"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("drain --cluster other.yaml ", ["x1"]),
        ("deploy --key con", ["configs/"]),
        ("monitoring-files --output con", ["configs/"]),
    ],
)
def test_a_command_line_when_completed_then_offers_what_fits(
    asked: Asked, place: Path, line: str, offered: list[str]
) -> None:
    (place / "other.yaml").write_text("nodes: [{hosts: x1}]\n")
    found = asked(f"fab {line}")
    assert [f"--hosts={one}" if "=" in line and "=" not in one else one for one in found] == offered


def test_runs_when_there_are_records_then_the_latest_is_the_first(asked: Asked, place: Path) -> None:
    (place / "configs/cluster.runs").mkdir()
    for name in ("20261123T100000", "20261123T110000"):
        (place / f"configs/cluster.runs/{name}.json").write_text("{}")
    assert asked("fab rollback --run ") == ["last", "20261123T110000", "20261123T100000"]


def test_hosts_when_there_is_no_cluster_file_then_are_those_of_ssh_config(asked: Asked, place: Path) -> None:
    (place / "configs/cluster.yaml").unlink()
    (place / ".ssh").mkdir()
    (place / ".ssh/config").write_text("Host bastion *.example.org\n  User ann\nHost m1 m2 !m3\n")
    assert asked("fab deploy --hosts ") == ["bastion", "m1", "m2"]


@pytest.mark.parametrize("text", ["cluster: [", "- a\n", "", "nodes: {a: b}\nusers: [1, {name: 2}]\n", "\x00"])
def test_a_cluster_file_when_broken_then_names_nothing_and_nothing_fails(asked: Asked, place: Path, text: str) -> None:
    (place / "configs/cluster.yaml").write_text(text)
    assert asked("fab drain n") == []
    assert asked("fab dep") == ["deploy"]


def test_what_the_tables_name_is_a_parameter_of_a_task() -> None:
    known = {(task, one.name) for task in TASKS for one in TASKS[task].parameters}
    assert set(completion.IN_TASK) <= known
    assert {one for one in completion.CHOICES if one[0]} <= known
    elsewhere = {*completion.KINDS, *(name for task, name in completion.CHOICES if not task)} - {"on", "exclude"}
    assert elsewhere <= {name for _, name in known}
