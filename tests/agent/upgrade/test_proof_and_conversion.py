"""The proof of a dump, the progress of a conversion, and jobs on upgraded nodes: what is read from programs' output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes import acceptance
from slurmfab.on_hosts.agent.upgrade import conversion, trial_jobs
from slurmfab.on_hosts.agent.upgrade.proved_dump import refuse_difference

NOW = {"job_table": 12, "user_table": 3}


@pytest.mark.parametrize(
    ("before", "loaded", "words"),
    [
        ({"job_table": 10, "user_table": 3}, {"job_table": 11, "user_table": 3}, ""),
        (NOW, NOW, ""),
        ({"job_table": 10, "user_table": 3}, {"job_table": 9, "user_table": 3}, "job_table has 9 rows in the dump"),
        (NOW, {"job_table": 12}, "user_table is only in the database"),
        (NOW, {**NOW, "x": 1}, "x is only in the dump"),
        (NOW, {}, "is only in the database"),
        ({}, {}, "it has no tables"),
    ],
)
def test_a_dump_when_counted_then_has_what_the_database_had_around_its_time(
    before: Mapping[str, int], loaded: Mapping[str, int], words: str
) -> None:
    now = NOW if before else {}
    if not words:
        refuse_difference(before, loaded, now)
        return
    with pytest.raises(ResourceFailed, match=words):
        refuse_difference(before, loaded, now)


class Answering(Context):
    """A host whose programs answer what was seen of the real ones.

    Args:
        answers: output by program; with a number, the exit code.
    """

    def __init__(self, answers: Mapping[str, str], code: int = 0) -> None:
        super().__init__("/nonexistent")
        self.answers = answers
        self.code = code

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        text = self.answers.get(argv[0], "").encode()
        return subprocess.CompletedProcess(argv, self.code, b"" if self.code else text, text)


ALTER = "12\t40\talter table `lab_job_table` modify `job_db_inx` bigint unsigned not null\n"


def test_a_conversion_when_under_way_then_tells_the_table_and_for_how_long() -> None:
    found = conversion.statement(Answering({"mariadb": ALTER}), "slurm_acct_db")
    assert found == {"table": "lab_job_table", "seconds": 12, "percent": 40}


def test_a_conversion_when_the_server_does_not_tell_then_goes_on_without_words() -> None:
    assert conversion.statement(Answering({"mariadb": "ERROR 2002"}, code=1), "slurm_acct_db") == {}
    assert conversion.statement(Answering({"mariadb": "3\tNULL\tselect sleep(3)\n"}), "slurm_acct_db") == {}


@pytest.mark.parametrize(
    ("answers", "place"), [({"mariadb": "/srv/sql/\n"}, "/srv/sql"), ({}, "/var/lib/mysql")], ids=["up", "down"]
)
def test_a_conversion_when_the_disk_is_full_then_says_so_whatever_slurmdbd_said(
    answers: Mapping[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Answering(answers, code=0 if answers else 1)
    monkeypatch.setattr(conversion, "shortage", lambda _: "4 KiB left")
    assert conversion.full_disk(host, "slurm_acct_db") == [f"the file system of {place} is full (4 KiB left)"]
    assert conversion.full_disk(host, "") == []
    monkeypatch.setattr(conversion, "shortage", lambda _: "")
    assert conversion.full_disk(host, "slurm_acct_db") == []


@pytest.mark.parametrize(
    ("said", "is_busy", "found"),
    [
        ("srun: error: Unable to allocate resources: Requested nodes are busy", True, "busy"),
        ("srun: error: Unable to allocate resources: Requested nodes are busy", False, "srun: error: Unable to"),
        ("srun: error: Task launch for StepId=9.0 failed on node n1", True, "srun: error: Task launch"),
    ],
)
def test_a_job_when_it_does_not_run_on_a_node_then_a_full_node_is_no_failure(
    said: str, is_busy: bool, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "uid_of", lambda *_: 0)
    monkeypatch.setattr(acceptance, "gid_of", lambda *_: 0)
    asked = trial_jobs.try_one(Answering({"srun": said}, code=1), "n1", "main", ("--mem=20M", "hostname"), is_busy)
    assert asked.startswith(found)
