"""What a controller tells of a job, nodes or a user, also when a daemon of Slurm's does not answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.answers import checked_object, values
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.logs import evidence
from slurmfab.on_hosts.agent.logs.evidence import EVENT_FIELDS, MEMORY_FIELDS, RECORD_FIELDS

UP, DOWN = "Slurmctld(primary) at c1 is UP\n", "Slurmctld(primary) at c1 is DOWN\n"
RECORD = {"JobID": "12", "JobIDRaw": "12", "Submit": "1000", "Start": "1100", "End": "1200", "State": "FAILED"}
EVENT = "n1|1000|0|DRAIN|root(0)|broken | fan"


class Controller(Context):
    """A controller.

    Args:
        root: of its files.
        ping: what slurmctld answers.
        records: sacct's rows; `None` where slurmdbd does not answer.
        remembered: squeue's rows.
    """

    def __init__(
        self,
        root: Path,
        ping: str = UP,
        records: Sequence[Mapping[str, str]] | None = (),
        remembered: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(str(root))
        self.ping, self.records, self.remembered = ping, records, remembered
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *_: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked.append(tuple(argv))
        shown = ""
        if argv[1] == "ping":
            shown = self.ping
        elif argv[0] == "squeue":
            if not {"--states=RUNNING,SUSPENDED", "--states=COMPLETING"} & {*argv}:
                mark = more["env"]["SQUEUE_FORMAT2"].rpartition(":")[2]
                shown = "".join(row.get(name, "") + mark for row in self.remembered for name in MEMORY_FIELDS)
        elif argv[0] in ("sacct", "sacctmgr") and self.records is None:
            return subprocess.CompletedProcess(argv, 1, b"", b"sacct: error: Connection refused")
        elif argv[0] == "sacct":
            mark = next(word for word in argv if word.startswith("--delimiter=")).partition("=")[2]
            shown = "".join(row.get(name, "") + mark for row in self.records or () for name in RECORD_FIELDS)
        elif argv[:4] == ("sacctmgr", "--noheader", "--parsable2", "show") and argv[4] == "event":
            assert argv[-1] == "format=" + ",".join(EVENT_FIELDS)
            shown = EVENT + "\n"
        elif argv[:5] == ("sacctmgr", "--noheader", "--parsable2", "show", "reservation"):
            shown = "works|1000|1100|n[1-2]\n"
        elif argv[0] == "getent":
            shown = f"{argv[2]}:$y$hash:20000:0:99999:7::19000:\n"
        elif argv[0] == "stat":
            shown = "0" if "--format=%u" in argv else "1000 4096 500 1000"
        return subprocess.CompletedProcess(argv, 0, shown.encode(), b"")


def test_a_job_when_it_is_on_record_then_records_others_and_events_are_told(root: Path) -> None:
    host = Controller(root, records=[RECORD])
    answer = evidence.read({"op": "evidence", "job": "12"}, host)
    assert [row[0] for row in answer["records"]] == ["12"]
    assert answer["events"] == [["n1", "1000", "0", "DRAIN", "root(0)", "broken | fan"]]
    assert answer["past_reservations"] == [["works", "1000", "1100", "n[1-2]"]]
    assert answer["missing"] == []
    window = next(argv for argv in host.asked if "--starttime=uts940" in argv)
    assert "--endtime=uts1260" in window
    model = values("evidence")
    assert model is not None
    assert checked_object("c1", model, json.loads(json.dumps(answer)), "evidence")["missing"] == []


def test_a_job_when_its_last_row_is_a_step_then_its_users_limits_are_asked(root: Path) -> None:
    host = Controller(root, records=[{**RECORD, "User": "ann"}, {"JobID": "12.batch", "JobIDRaw": "12.batch"}])
    evidence.read({"op": "evidence", "job": "12"}, host)
    assert any("user=ann" in argv for argv in host.asked)


def test_a_job_when_slurmdbd_is_silent_then_slurmctlds_memory_is_told_and_that_it_is_missing(root: Path) -> None:
    known = {"JobArrayID": "12", "JobID": "12", "State": "PENDING", "SubmitTime": "1000", "UserName": "ann"}
    answer = evidence.read({"op": "evidence", "job": "12"}, Controller(root, records=None, remembered=[known]))
    assert [row[0] for row in answer["memory"]][:1] == ["12"]
    assert [name for name, _ in answer["missing"]] == ["slurmdbd"]


def test_a_job_when_slurmctld_is_silent_then_only_its_database_is_asked(root: Path) -> None:
    host = Controller(root, ping=DOWN, records=[RECORD])
    answer = evidence.read({"op": "evidence", "job": "12"}, host)
    assert answer["missing"][0][0] == "slurmctld"
    assert not [argv for argv in host.asked if argv[0] == "squeue"]


def test_a_command_line_when_it_has_a_secret_then_it_is_hidden(root: Path) -> None:
    row = {**RECORD, "SubmitLine": "sbatch --wrap 'mysql -psecret --password=hush'"}
    answer = evidence.read({"op": "evidence", "job": "12"}, Controller(root, records=[row]))
    assert "hush" not in answer["records"][0][-1]
    assert "secret" not in answer["records"][0][-1]


def test_a_user_when_asked_for_then_shell_and_expiry_are_told_and_nothing_else_of_shadow(root: Path) -> None:
    found = evidence.read({"op": "evidence", "home": "root"}, Controller(root))["account"]
    assert (found["expired"], found["owner"], found["trouble"]) == ("19000", "0", "")
    assert found["shell"].startswith("/")
    assert "hash" not in str(found)


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["afterok:11(unfulfilled),afterany:12(failed)"], ["11", "12"]),
        (["sbatch --dependency=afterok:11:12_3?after:13+5 x"], ["11", "12_3", "13"]),
        (["(null)", "sbatch job.sh"], []),
    ],
)
def test_dependencies_when_they_name_jobs_then_these_are_found(texts: list[str], ids: list[str]) -> None:
    assert evidence.jobs_named(texts) == ids


def test_names_when_uids_are_asked_for_then_unknown_ones_are_empty(root: Path) -> None:
    found = evidence.read({"op": "evidence", "uids": ["0", "4294967294"]}, Controller(root))
    assert found == {"names": {"0": "root", "4294967294": ""}}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("sacct --allusers --duplicates --jobs=12 did not end within 30 s", "sacct did not end within 30 s"),
        (
            "sacct -j 12 ended with exit code 1: sacct: error: slurmdbd: Connection refused",
            "slurmdbd: Connection refused",
        ),
        ("sacct -j 12 ended with exit code 1: no message", "1: no message"),
        ("sacct is not installed", "sacct is not installed"),
    ],
)
def test_a_question_when_it_fails_then_the_reason_is_told_without_the_command_line(error: str, told: str) -> None:
    answer: dict[str, Any] = {"missing": []}

    def fail() -> None:
        raise ResourceFailed(error)

    evidence.attempt(answer, "slurmdbd", fail)
    assert answer["missing"] == [["slurmdbd", told]]
