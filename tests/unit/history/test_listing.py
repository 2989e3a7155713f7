"""`fab history`: what was done, when, by whom and how it ended, without asking any host."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, run_over

from slurmfab.base.errors import InputError, SlurmfabError, Unreachable
from slurmfab.commands.history import listing
from slurmfab.commands.history.listing import changes_text, result_text
from slurmfab.core.engine import record
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
PATH = Path("lab.yaml")


def changed(phase: str, host: str, *ids: str, status: str = "changed", change: str = "state") -> Step:
    """A step in which these resources were changed."""
    return Step(phase, host, tuple(Outcome(name, status, (Change(change, "a", "b"),)) for name in ids), 1.0)


def conf(host: str, *files: str) -> Step:
    """A step in which Slurm's files were changed."""
    changes = tuple(Change(name, diff="-old\n+new") for name in files)
    return Step("slurm.conf", host, (Outcome("slurm-files:/etc/slurm", "changed", changes),), 1.0)


def one(*steps: Step, **more: Any) -> Record:
    """A run that has ended."""
    known: dict[str, Any] = {"by": "ann@laptop", "ended": NOON + timedelta(seconds=9), "hosts": ("c1", "n1", "n2")}
    return Record("20260102T120000.000000Z-deploy", "deploy", begun=NOON, steps=steps, **{**known, **more})


def leave(folder: Path, number: int = 0, *, is_unfinished: bool = False, **more: Any) -> str:
    """Leave the record of a run in a folder, and return the run's id."""
    path = folder / "lab.yaml"
    path.write_text(THREE_HOSTS)
    defaults = {"path": path, "started": NOON + timedelta(minutes=number), "steps": [conf("c1", "slurm.conf")]}
    run = run_over(FakeHosts({}), cluster(), **{**defaults, **more})
    if is_unfinished:
        record.begin(run)
    else:
        record.finish(run)
    return run.id


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((), "nothing changed"),
        ([conf(host, "slurm.conf") for host in ("c1", "n1", "n2")], "slurm.conf on c1,n[1-2]"),
        ([conf("c1", "slurm.conf", "gres.conf access", "leftovers")], "slurm.conf, gres.conf on c1"),
        ([conf("c1", "gres.conf", "gres.conf access")], "gres.conf on c1"),
        ([changed("names", "n1", "block:/etc/hosts#hosts")], "hosts on n1"),
        (
            [changed("slurmd", "n1", "service:slurmd"), changed("munge", "n2", "file:/k/munge.key", "service:munge")],
            "munge.key on n2; 2 services on n[1-2]",
        ),
        ([changed("slurmd", "n1", "service:slurmd")], "1 service on n1"),
        ([changed("packages", "n1", "packages:slurmd,munge")], "1 installation of packages on n1"),
        (
            [changed("users", host, "group:ann", "user:ann", "group:bob", "user:bob") for host in ("c1", "n1", "n2")],
            "2 groups on c1,n[1-2]; 2 users on c1,n[1-2]",
        ),
        ([changed("drain", "c1", "node-drain:n1,n2")], "drained: n[1-2]"),
        ([changed("undo", "n1", "restored:/etc/slurm/slurm.conf", "absent:/etc/x")], "slurm.conf, x on n1"),
        ([changed("slurmd", "n1", "service:slurmd", status="failed")], "nothing changed"),
        ([changed("nodes", "c1", "slurm-nodes:n1")], "other changes"),
        ([changed("accounts", "c1", "accounts:lab", change="qos high MaxWall")], "accounting: qos high"),
        ([changed("accounts", "c1", "accounts:lab", change="user ann in physics QOS")], "accounting: user ann"),
        ([changed("accounts", "c1", "accounts:lab", change="cluster lab")], "other changes"),
        ([changed("database", "c1", "slurmdbd-conf:/etc/slurm/slurmdbd.conf")], "slurmdbd.conf on c1"),
    ],
)
def test_what_a_run_changed_is_told_in_brief(steps: list[Step], words: str) -> None:
    assert changes_text(one(*steps)) == words


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (one(conf("c1", "slurm.conf")), "done"),
        (one(exit_code=3, lost={"n2": "off."}), "done without n2"),
        (one(changed("slurmd", "n1", "service:slurmd", status="failed"), exit_code=1), "failed on n1"),
        (one(exit_code=1, lost={"n1": "broken.", "n2": "off."}), "failed on n[1-2]"),
        (one(error="The cluster file is wrong."), "failed"),
        (one(ended=None), "interrupted"),
        (one(ended=None, by=f"ann@{socket.gethostname()}", pid=0), "interrupted"),
        (one(ended=None, by=f"ann@{socket.gethostname()}", pid=2**22 + 1), "interrupted"),
    ],
)
def test_how_a_run_ended_is_told_in_a_word(told: Record, words: str) -> None:
    assert result_text(told) == words


@pytest.mark.parametrize(
    ("begun", "by", "words"),
    [
        (timedelta(0), socket.gethostname(), "running"),
        (timedelta(days=-9999), socket.gethostname(), "interrupted"),
        (timedelta(0), "elsewhere", "interrupted"),
    ],
)
def test_a_run_whose_deployer_still_works_here_is_at_work_and_another_process_of_its_number_does_not_count(
    begun: timedelta, by: str, words: str
) -> None:
    now = datetime.now(timezone.utc)
    unfinished = one(ended=None, by=f"ann@{by}", pid=os.getpid())
    assert result_text(dataclasses.replace(unfinished, begun=now + begun)) == words


def test_all_runs_are_listed_newest_last_with_when_who_where_and_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ann")
    monkeypatch.setenv("LOGNAME", "ann")
    first, second = leave(tmp_path), leave(tmp_path, 1, failed_hosts={"n2": Unreachable("n2", "off.")})
    assert listing.show(str(tmp_path / "lab.yaml"), "", "") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == [first, second]
    assert f"{NOON.astimezone():%Y-%m-%d %H:%M:%S}  ann@{socket.gethostname()}  c1,n[1-2]  done" in lines[0]
    assert lines[1] == "    slurm.conf on c1"
    assert lines[2].endswith("done without n2")


def test_without_any_run_there_is_a_sentence_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show(str(tmp_path / "lab.yaml"), "", "") == 0
    assert "No runs recorded in " in capsys.readouterr().out


def test_a_broken_record_is_named_on_the_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = leave(tmp_path)
    (tmp_path / "lab.runs/20260103T120000.000000Z-deploy.json").write_text("{")
    assert listing.show(str(tmp_path / "lab.yaml"), "", "") == 0
    told = capsys.readouterr()
    assert told.out.startswith(run)
    assert "20260103T120000.000000Z-deploy.json: this file is not the record of a run" in told.err


@pytest.mark.parametrize("word", ["20260102T120100.000000Z-deploy", "20260102T1201", "last"])
def test_a_run_is_found_by_its_id_by_a_beginning_and_as_the_last(word: str) -> None:
    runs = [dataclasses.replace(one(), run=f"20260102T12{n:02d}00.000000Z-deploy") for n in range(2)]
    assert listing.find(runs, word, PATH) is runs[1]


def test_an_id_that_is_the_beginning_of_another_is_found_all_the_same() -> None:
    runs = [
        dataclasses.replace(one(), run=name) for name in ("20260102T120000.000000Z-re", "20260102T120000.000000Z-res")
    ]
    assert listing.find(runs, runs[0].run, PATH) is runs[0]


@pytest.mark.parametrize(
    ("word", "words"), [("2026", "2 runs begin with that"), ("2027", "no run begins with that; the newest are")]
)
def test_a_word_that_means_no_run_or_several_is_refused_with_the_runs_that_there_are(word: str, words: str) -> None:
    runs = [dataclasses.replace(one(), run=f"20260102T12{n:02d}00.000000Z-deploy") for n in range(2)]
    with pytest.raises(InputError, match=words) as refused:
        listing.find(runs, word, PATH)
    assert all(run.run in str(refused.value) for run in runs)


def test_a_run_when_none_was_recorded_is_refused_with_the_place() -> None:
    with pytest.raises(InputError, match=r"^No runs recorded in lab\.runs\."):
        listing.find([], "last", PATH)


def test_one_run_is_told_with_its_diffs_folded_over_equal_hosts_and_why_it_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [conf(host, "slurm.conf") for host in ("c1", "n1")]
    leave(tmp_path, steps=steps, failed_hosts={"n2": Unreachable("n2", "nothing listens.")}, undoes="20260101")
    listing.show(str(tmp_path / "lab.yaml"), "last", "")
    text = capsys.readouterr().out
    assert "20260102T120000.000000Z-deploy: done without n2" in text
    assert (
        "c1,n1: slurm.conf\n    slurm-files:/etc/slurm: changed\n      slurm.conf:\n        -old\n        +new" in text
    )
    assert "n2: skipped: nothing listens." in text
    assert "It undoes 20260101 and all later runs." in text


def test_a_run_that_was_cut_off_is_told_with_a_way_to_find_out_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, is_unfinished=True, steps=[])
    path = next((tmp_path / "lab.runs").iterdir())
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 0}))
    listing.show(str(tmp_path / "lab.yaml"), "last", "")
    text = capsys.readouterr().out
    assert "20260102T120000.000000Z-deploy: interrupted" in text
    assert "fab plan shows the present state" in text


def test_json_holds_all_runs_in_brief_or_one_with_all_that_was_deployed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = leave(tmp_path)
    listing.show(str(tmp_path / "lab.yaml"), "", "-")
    (brief,) = json.loads(capsys.readouterr().out)["runs"]
    assert (brief["run"], brief["outcome"], brief["changed"]) == (run, "done", "slurm.conf on c1")
    listing.show(str(tmp_path / "lab.yaml"), "last", str(tmp_path / "run.json"))
    whole = json.loads((tmp_path / "run.json").read_text())
    assert (whole["run"], whole["cluster_file"], len(whole["steps"])) == (run, THREE_HOSTS, 1)


def test_an_error_of_a_run_is_told_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(tmp_path)
    (path,) = (tmp_path / "lab.runs").iterdir()
    error = str(SlurmfabError("c1 is the controller.\nNothing else was started."))
    path.write_text(json.dumps({**json.loads(path.read_text()), "error": error}))
    listing.show(str(tmp_path / "lab.yaml"), "last", "")
    assert "    c1 is the controller.\n    Nothing else was started.\n" in capsys.readouterr().out
