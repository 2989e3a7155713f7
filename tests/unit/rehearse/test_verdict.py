"""What a rehearsal found: its exit code and text, the reckoning for the cluster, and what is kept of it."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from slurmfab.commands.rehearse.verdict import Attempt, Rehearsal, durations, write
from slurmfab.core.engine import rehearsals
from slurmfab.core.engine.rehearsals import Rehearsed
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.saved_plan import Files
from slurmfab.on_hosts.agent.core.resource import CHANGED, Change, Outcome

BEGUN = datetime(2026, 11, 27, 14, 2, tzinfo=timezone.utc)
CHANGE = (Outcome("file:/etc/slurm/slurm.conf", CHANGED, (Change("content", "", "", "-a\n+b"),)),)
STEPS = (Step("slurm.conf", "mn01", CHANGE, 1.0, 0.5), Step("slurm.conf", "cn01", CHANGE, 2.0, 1.0))
TWIN = {"mn01": (), "cn01": tuple(f"cn{number:03}" for number in range(2, 201))}
WELL = Rehearsal(
    "titanic", "deploy", BEGUN, (), (), (Attempt(3.0, 0),), STEPS, durations([STEPS], TWIN), ("4 ran before.",),
    "9 passed", "9 passed", TWIN, "", ("hardware",),
)  # fmt: skip


def text_of(one: Rehearsal) -> str:
    out = io.StringIO()
    write(one, out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("one", "code", "first"),
    [
        (WELL, 0, "went well"),
        (replace(WELL, look_at=("look",)), 4, "went well, but look at this first"),
        (replace(WELL, look_at=("look",), found=("slurmctld does not start",)), 1, "FAILS"),
    ],
)
def test_the_first_line_and_the_exit_code_say_how_it_went(one: Rehearsal, code: int, first: str) -> None:
    assert one.exit_code == code
    assert text_of(one).splitlines()[0] == f"Rehearsal of `deploy` on a twin of titanic: {first}"


def test_what_was_found_comes_before_all_else() -> None:
    lines = text_of(replace(WELL, found=("slurmctld does not start",), look_at=("look",))).splitlines()
    assert [line.strip() for line in lines[1:3]] == ["slurmctld does not start", "look"]


def test_a_phase_is_reckoned_by_the_groups_of_hosts_that_are_worked_on_at_once() -> None:
    (one,) = durations([STEPS], TWIN)
    assert (one.phase, one.hosts, one.seconds) == ("slurm.conf", ("mn01", "cn01"), 2.5)
    assert one.reckoned == 2.5 * 4  # 201 hosts are 4 groups of 64, those of the twin one


def test_a_phase_that_is_gone_through_several_times_has_taken_the_sum_without_the_pauses() -> None:
    batches = [Step("nodes", host, CHANGE, 2.0, at) for host, at in (("cn01", 0.0), ("cn02", 1.0), ("cn03", 10.0))]
    (one,) = durations([batches, [Step("nodes", "cn01", CHANGE, 4.0, 0.0)]], {})
    assert one.seconds == 3.0 + 2.0 + 4.0


def test_an_upgrade_is_reckoned_by_the_part_of_the_nodes_that_is_done_at_once() -> None:
    twin = {"cn01": tuple(f"cn{number:02}" for number in range(2, 41))}
    (one,) = durations([[Step("nodes", "cn01", CHANGE, 6.0, 0.0)]], twin, 0.1)
    assert one.reckoned == 6.0 * 10  # 40 nodes, 4 at a time


def test_the_text_says_what_changed_how_long_it_took_and_what_the_twin_lacks() -> None:
    text = text_of(WELL)
    for words in (
        "cn[002-200]",
        "cn01,mn01: slurm.conf, 2.5 s, on the cluster 10.0 s",
        "no jobs and no history",
        "hardware",
    ):
        assert words in text


def kept(path: Path, **values: str) -> None:
    files = Files.of(path)
    given = {"verdict": "went well", "cause": "", "cluster": files.cluster, "lock": files.lock, **values}
    rehearsals.keep(path, Rehearsed(command="deploy --hosts n1", begun=BEGUN, **given))


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text("cluster: titanic\n")
    return path


def test_a_rehearsal_that_is_kept_is_told_with_its_time_and_how_it_went(cluster_file: Path) -> None:
    kept(cluster_file, verdict="FAILS", cause="slurmctld does not start")
    assert rehearsals.sentence(cluster_file, "deploy") == (
        "Rehearsed 2026-11-27 14:02 UTC: FAILS: slurmctld does not start."
    )


def test_a_rehearsal_when_the_cluster_file_has_changed_since_then_is_stale(cluster_file: Path) -> None:
    kept(cluster_file)
    cluster_file.write_text("cluster: other\n")
    assert "That is stale: the files have changed since." in rehearsals.sentence(cluster_file, "deploy")


def test_a_command_that_was_not_rehearsed_is_not_told_of(cluster_file: Path) -> None:
    kept(cluster_file)
    assert rehearsals.sentence(cluster_file, "upgrade") == ""


def test_a_damaged_rehearsal_is_passed_over(cluster_file: Path) -> None:
    kept(cluster_file)
    (rehearsals.directory(cluster_file) / "20991121T112423.829348Z.json").write_text("{")
    assert rehearsals.sentence(cluster_file, "deploy").startswith("Rehearsed 2026-11-27")
