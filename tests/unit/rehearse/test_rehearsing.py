"""A rehearsal before and after its twin: what it needs, what it begins with, and what it judges."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from slurmfab import lab as labs
from slurmfab.base.errors import InputError, LabError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.lock import HostLock, Lock, save
from slurmfab.commands.rehearse import rehearsing
from slurmfab.commands.rehearse.playing import Outcome
from slurmfab.commands.rehearse.rehearsing import Checked, Wanted
from slurmfab.commands.rehearse.stage import Done
from slurmfab.core.engine import record
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.job_tally import JobEnd, JobTally
from slurmfab.lab import needs, twins

TEXT = "cluster: titanic\ncontrollers: [mn01]\nnodes: [{hosts: 'cn[01-04]'}]\n"
WANTED = Wanted(("deploy",))


@pytest.fixture
def cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster that was deployed; a question to its hosts fails the test."""
    path = tmp_path / "cluster.yaml"
    path.write_text(TEXT)
    names = ("mn01", "cn01", "cn02", "cn03", "cn04")
    save(
        Lock(slurm="24.11.5", ids={"slurm.uid": 64030}, hosts=dict.fromkeys(names, HostLock("x"))),
        loading.lock_path(path),
    )
    monkeypatch.setattr(rehearsing, "questions", lambda *_: pytest.fail("a host was asked"))
    monkeypatch.setattr(labs, "obstacle", lambda: "")
    for module in (labs, twins.labs):
        monkeypatch.setattr(module, "names", lambda: ("another",))
    monkeypatch.setattr(twins, "PLACES", tmp_path / "rehearsals")
    return path


def test_a_machine_that_can_run_no_lab_is_told_before_the_cluster_is_asked(
    cluster_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labs, "obstacle", lambda: "it needs root: run the command with sudo.")
    with pytest.raises(LabError, match="run the command with sudo"):
        rehearsing.rehearse(str(cluster_file), WANTED, Output())


def test_a_machine_that_is_too_small_is_told_what_the_twin_needs(
    cluster_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "available_memory", lambda: 1000 << 20)
    with pytest.raises(LabError, match=r"A twin of 3 hosts \(cn\[01-02\],mn01\) needs 1200 MiB .* has 1000 MiB left"):
        rehearsing.rehearse(str(cluster_file), WANTED, Output())


@pytest.mark.parametrize("wanted", [Wanted(("deploy",), hosts="cn09"), Wanted(("deploy",), cut="cn09")])
def test_a_host_that_is_not_in_the_cluster_is_refused(cluster_file: Path, wanted: Wanted) -> None:
    with pytest.raises(InputError, match="cn09: not in the cluster file"):
        rehearsing.rehearse(str(cluster_file), wanted, Output())


def recorded(cluster_file: Path, name: str, text: str, **values: Any) -> None:
    begun = datetime(2026, 11, 26, tzinfo=timezone.utc).isoformat()
    lock = json.loads(loading.lock_path(cluster_file).read_text())
    about = {
        "state": "finished", "command": "deploy", "by": "ann@laptop", "begun": begun, "ended": begun, "hosts": [],
        "exit_code": 0, "steps": [], "lost": {}, "cluster_file": text, "lock": lock,
    }  # fmt: skip
    place = record.directory(cluster_file)
    place.mkdir(exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps({**about, **values}))


def test_a_twin_begins_with_the_cluster_file_of_the_last_run_that_deployed_it(cluster_file: Path) -> None:
    recorded(cluster_file, "20261121T112423.829348Z-deploy", TEXT.replace("01-04", "01-02"))
    recorded(cluster_file, "20261122T112423.829348Z-deploy", TEXT.replace("01-04", "01-03"))
    recorded(cluster_file, "20261123T112423.829348Z-drain", TEXT, command="drain")
    recorded(cluster_file, "20261124T112423.829348Z-deploy", TEXT, exit_code=1)
    recorded(cluster_file, "20261125T112423.829348Z-deploy", TEXT, only=["munge-key"])
    found = rehearsing.former(loading.load(cluster_file))
    assert found is not None
    assert found.cluster.compute_nodes == ("cn01", "cn02", "cn03")


def test_a_twin_when_no_run_is_on_record_then_what_is_deployed_is_not_known(cluster_file: Path) -> None:
    assert rehearsing.former(loading.load(cluster_file)) is None


LOST = JobTally(2, 1, lost=(JobEnd("12", "ann", "cn01", "NODE_FAIL"),))


@pytest.mark.parametrize(
    ("wanted", "is_harm"),
    [
        (WANTED, True),
        (Wanted(("deploy",), cut="cn01"), False),
        (Wanted(("deploy",), cut="cn02"), True),
        (Wanted(("restore", "a.tar", "--overwrite")), False),
        (Wanted(("restore", "a.tar")), True),
    ],
)
def test_a_lost_job_is_harm_unless_a_power_cut_ended_it_or_it_was_to_be_discarded(
    wanted: Wanted, is_harm: bool
) -> None:
    told = rehearsing.harm(wanted, Outcome((), LOST, ()))
    assert told == (["LOST: job 12 (ann) on cn01: NODE_FAIL."] if is_harm else [])


def test_errors_about_jobs_that_were_to_be_abandoned_are_expected() -> None:
    orphan = "error: Orphan StepId=17.batch reported on node n2"
    outcome = Outcome((), LOST, (), (orphan, "error: disk full"))
    restore = ("restore", "a.tar", "--overwrite")
    assert rehearsing.unexpected(Wanted((*restore, "--abandon-jobs")), outcome) == ["error: disk full"]
    assert rehearsing.unexpected(Wanted(restore), outcome) == [orphan, "error: disk full"]


def test_only_checks_that_passed_before_count_against_the_command() -> None:
    before = Checked("", {("munge", "runs", "cn01"): "cn01: munged is dead"})
    after = Checked("", {**before.failed, ("daemons", "runs", "cn02"): "cn02: slurmd is dead"})
    assert rehearsing.worse_checks(before, after) == ["check-cluster fails afterwards: cn02: slurmd is dead"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("deploy",), 0),
        (("upgrade",), 0.1),
        (("upgrade", "--at-once", "25%"), 0.25),
    ],
)
def test_the_part_of_the_nodes_at_a_time_is_the_upgrades(words: tuple[str, ...], part: float) -> None:
    assert rehearsing.at_once_of(Wanted(words)) == part


def test_a_failure_is_told_by_the_reasons_of_a_refusal_and_the_last_errors_without_the_twins_paths() -> None:
    output = (
        "Upgrade from 24.11\n\nRefused, nothing was changed:\n  - a plugin is missing\n  - no room\n\nThe way back: …\n"
    )
    errors = "\n".join(
        [*(f"line {number}" for number in range(20)), "/twin/cluster.yaml:7: slurm_conf.X: unknown key", ""]
    )
    lines = rehearsing.last_lines(Done(2, 1.0, output, errors), Path("/twin"))
    assert lines[:3] == ["- a plugin is missing", "- no room", "line 9"]
    assert lines[-1] == "cluster.yaml: slurm_conf.X: unknown key"


def test_a_failure_is_told_by_the_checks_that_failed_at_its_end_and_by_lost_jobs() -> None:
    output = (
        "FAILED  daemons: slurmd is running\n  n1: slurmd.service is inactive\n    repair: fab deploy --hosts n1\n\n"
        "Jobs: 5 ran before, 4 run now.\nLOST: job 15 (eve) on n3: it must start again.\n"
    )
    assert rehearsing.last_lines(Done(1, 1.0, output, "Slurm 26.05 runs on all hosts.\n"), Path("/twin")) == [
        "daemons: slurmd is running n1: slurmd.service is inactive repair: fab deploy --hosts n1",
        "LOST: job 15 (eve) on n3: it must start again.",
        "Slurm 26.05 runs on all hosts.",
    ]


def test_a_failure_is_told_by_its_errors_before_the_last_output_and_before_lines_of_progress() -> None:
    output = "The way back:\n  - BACKUP does it at any time.\n"
    errors = "proof  ctl  1 failed (6.2 s)\nctl: the dump cannot be converted. Nothing was upgraded.\n"
    assert rehearsing.last_lines(Done(1, 1.0, output, errors), Path("/twin")) == [
        "ctl: the dump cannot be converted. Nothing was upgraded.",
        "The way back:",
        "- BACKUP does it at any time.",
        "proof  ctl  1 failed (6.2 s)",
    ]


def test_a_failure_without_an_error_is_told_by_its_last_output() -> None:
    output = "slurmctld on ctl refuses the port.\ntitanic: 1 change on 3 hosts; not done: n[1-2] (0.9 s).\n"
    lines = rehearsing.last_lines(Done(1, 1.0, output, "slurm.conf  ctl  1 changed (0.0 to 0.1 s)\n"), Path("/twin"))
    assert lines[0] == "slurmctld on ctl refuses the port."


def test_a_restoration_that_is_refused_is_told_without_what_the_trusted_copy_could_do() -> None:
    errors = (
        "a.tar: it is not signed.\nIt brings, among other things:\nTrusted by --trust-archive.\nmn01: newer jobs.\n"
    )
    assert rehearsing.last_lines(Done(1, 1.0, "", errors), Path("/twin")) == ["mn01: newer jobs."]
