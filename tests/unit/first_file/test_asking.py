"""`fab init`: asks on a terminal, takes flags everywhere, writes new files only, and nothing when interrupted."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from terminals import Terminal

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.inventory import loading, schema_file
from slurmfab.commands.init.asking import init

FLAGS: dict[str, str | bool] = {"name": "lab", "controller": "ctl", "nodes": "n[1-4]"}


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURMFAB_CLUSTER", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch):
    """Types lines at a terminal; returns what is shown there."""

    def type_lines(*lines: str) -> Terminal:
        shown = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{line}\n" for line in lines)))
        monkeypatch.setattr(sys, "stderr", shown)
        return shown

    return type_lines


def files() -> list[str]:
    return sorted(str(path.relative_to(Path.cwd())) for path in Path.cwd().rglob("*") if path.is_file())


WRITTEN = ["configs/cluster.schema.json", "configs/cluster.yaml", "fabfile.py"]


def test_flags_alone_write_a_file_and_say_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("", FLAGS, yes=True) == 0
    assert files() == WRITTEN
    path = Path("configs/cluster.yaml")
    assert path.read_text().startswith(schema_file.modeline(path))
    assert loading.load(path).cluster.compute_nodes == ("n1", "n2", "n3", "n4")
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "Wrote configs/cluster.yaml: ctl is the controller, n[1-4] compute."
    assert told[1] == "Wrote fabfile.py: `fab` works in that directory now."
    assert told[2].startswith("Next: read configs/cluster.yaml")


def test_answers_on_a_terminal_write_a_file(types) -> None:
    shown = types("", "ctl", "n[1-4],g1", "login1", "admin", "y", "g1", "nas:/export/home", "ann,bob", "")
    assert init("configs/mine.yaml", {}, yes=False) == 0
    cluster = loading.load(Path("configs/mine.yaml")).cluster
    assert (cluster.name, cluster.controller, cluster.database_hosts) == ("cluster", "ctl", ("ctl",))
    assert [user.name for user in cluster.users] == ["ann", "bob"]
    assert "Name of the cluster [cluster]: " in shown.getvalue()
    assert "Write configs/mine.yaml? [Y/n] " in shown.getvalue()


def test_a_wrong_answer_is_asked_again_with_the_reason(types) -> None:
    shown = types("Lab", "lab", "", "ctl", "n[1-", "n[1-2]", "none", "", "maybe", "", "", "", "", "y")
    assert init("", {}, yes=False) == 0
    for reason in ('"Lab" is not a valid cluster name', "this answer is needed", "n[1-", "y or n"):
        assert reason in shown.getvalue()
    assert loading.load(Path("configs/cluster.yaml")).cluster.compute_nodes == ("n1", "n2")


def test_what_a_flag_says_is_not_asked(types) -> None:
    shown = types("", "", "", "", "", "", "y")
    assert init("", FLAGS, yes=False) == 0
    assert "Controller" not in shown.getvalue()
    assert "Login hosts" in shown.getvalue()


@pytest.mark.parametrize("lines", [("", "", "", "", "", "", "n"), ("",), ()])
def test_a_no_at_the_end_and_an_input_that_ends_leave_nothing(types, lines: tuple[str, ...]) -> None:
    types(*lines)
    with pytest.raises(SlurmfabError, match=r"Nothing was written\."):
        init("", FLAGS, yes=False)
    assert files() == []


def test_ctrl_c_leaves_nothing(types, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Terminal):
        def readline(self, *_: object) -> str:
            raise KeyboardInterrupt

    shown = types()
    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert init("", {}, yes=False) == 130
    assert "Nothing was written." in shown.getvalue()
    assert files() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "--controller and --nodes are needed"),
        ({"nodes": "n1"}, "--controller is needed"),
        ({**FLAGS, "nodes": "n[1-"}, r"--nodes n\[1-: "),
        ({**FLAGS, "gpu_nodes": "g1"}, '--gpu-nodes g1: .*"g1" is not a compute node'),
    ],
)
def test_a_flag_that_is_missing_or_wrong_is_refused(
    given: dict[str, str | bool], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(InputError, match=words) as caught:
        init("", given, yes=False)
    assert caught.value.exit_code == 2
    assert files() == []


@pytest.mark.parametrize("name", ["configs/cluster.yaml", "configs/cluster.lock.json"])
def test_a_file_that_is_there_is_never_replaced(name: str) -> None:
    Path("configs").mkdir()
    Path(name).write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        init("", FLAGS, yes=True)
    assert files() == [name]
    assert Path(name).read_text() == "mine"
