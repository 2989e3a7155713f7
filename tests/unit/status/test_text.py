"""The state of a cluster as people see it, from real output of Slurm."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from slurm_output_files import VERSIONS, seen, text
from terminals import Terminal, shown_on

from slurmfab.base.hostlist import fold
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.snapshot import Snapshot, from_answer
from slurmfab.core.status.text import MOST_JOBS, write
from slurmfab.on_hosts.agent.client.amounts import clock


def text_of(status: Status, user: str = "", out: io.StringIO | None = None) -> str:
    out = out or io.StringIO()
    write(status, user, out)
    return out.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_cluster_when_told_fits_on_one_screen(version: str) -> None:
    snapshot = seen(version)
    lines = text_of(Status("titanic", snapshot, {})).splitlines()
    since = snapshot.by_name["n3"].state.since[:16].replace("T", " ")
    assert lines[0] == f"titanic (Slurm {snapshot.nodes[0].version}), slurmctld: ctl up"
    assert lines[1:5] == [
        "GPU usage:  3/4, 1 free",
        "CPU usage:  3/6, 1 free, 2 on nodes out of service",
        "Free nodes: 0/3",
        "Jobs:       2 running, 28 pending",
    ]
    assert f"1      idle, drain  n3     fan is loud [x@y] State=IDLE (root, {since})" in lines
    assert "main*      up     3      3/6   3/4   2        28       1-00:00:00" in lines
    assert "ann   2        22       3     3" in lines
    assert len(lines) < 24


def test_nodes_with_an_older_slurm_are_named_with_it() -> None:
    snapshot = seen(VERSIONS[0])
    first, *rest = snapshot.nodes
    mixed = replace(snapshot, nodes=(replace(first, version="99.05.1"), *rest))
    title = text_of(Status("titanic", mixed, {})).splitlines()[0]
    assert title == f"titanic (Slurm 99.05.1; {fold(node.name for node in rest)}: {first.version}), slurmctld: ctl up"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_users_jobs_when_told_have_a_line_each_and_plain_words_on_limits(version: str) -> None:
    told = text_of(Status("titanic", seen(version), {}), "ann")
    assert "Job details for user ann:\nNo limits are known: this cluster has no accounting database" in told
    assert "odd | name  with=State=DOWN  RUNNING" in told
    assert "BeginTime" in told
    assert "rootjob" not in told
    assert "carl has no jobs." in text_of(Status("titanic", seen(version), {}), "carl")


def test_a_user_with_very_many_jobs_when_told_has_the_first_of_them() -> None:
    line = text("24.11", "jobs").splitlines()[-1]
    jobs = "".join(line.replace("|two|", f"|j{number}|") + "\n" for number in range(MOST_JOBS + 7))
    told = text_of(Status("titanic", seen("24.11", jobs=jobs), {}), "ann")
    assert told.endswith("… and 7 more; --json has them all.\n")


def test_a_job_name_that_would_steer_the_terminal_when_told_is_harmless() -> None:
    jobs = text("24.11", "jobs").replace("|two|", "|\x1b[2Jtwo|")
    assert "\x1b" not in text_of(Status("titanic", seen("24.11", jobs=jobs), {}), "ann")


def test_a_controller_that_does_not_answer_when_told_comes_first() -> None:
    down = from_answer({"ping": "Slurmctld(primary) at ctl is DOWN\n", "trouble": ""})
    lines = text_of(Status("titanic", down, {})).splitlines()
    assert lines[0].startswith("ctl: slurmctld does not answer.")
    assert lines[1:] == ["titanic, slurmctld: ctl DOWN"]
    lost = Status("titanic", Snapshot(), {"ctl": "ctl: nothing listens at port 22."})
    assert text_of(lost).splitlines()[0] == "ctl: nothing listens at port 22."
    assert lost.exit_code == 1


def test_colours_are_for_terminals_and_not_for_those_who_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    status = Status("titanic", seen("24.11"), {})
    assert "\x1b[" in text_of(status, out=Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in text_of(status, out=Terminal())


@pytest.mark.parametrize("width", [30, 60])
def test_a_narrow_terminal_breaks_no_word(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    status = Status("titanic", seen("24.11"), {})
    out = Terminal()
    text_of(status, "ann", out)
    lines = shown_on(out)
    assert max(map(len, lines)) <= width
    assert {word for line in lines for word in line.split()} >= set(text_of(status, "ann").split())


@pytest.mark.parametrize(("seconds", "shown"), [(0, "00:00:00"), (178031, "2-01:27:11"), (3661, "01:01:01")])
def test_a_time_when_told_looks_as_slurm_writes_it(seconds: int, shown: str) -> None:
    assert clock(seconds) == shown
