"""When and where a job ran, from whoever still knows it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.answers import checked_object, values
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.logs import job_record

UP, DOWN = b"Slurmctld(primary) at c1 is UP\n", b"Slurmctld(primary) at c1 is DOWN\n"


class Controller(Context):
    """A controller.

    Args:
        root: of its files.
        ping: what slurmctld answers.
        squeue: the values of the job's fields, if it knows the job.
        sacct: what sacct prints; empty for no database.
    """

    def __init__(self, root: Path, ping: bytes = UP, squeue: Sequence[str] = (), sacct: str = "") -> None:
        super().__init__(str(root))
        self.ping, self.squeue, self.sacct = ping, squeue, sacct

    def run(self, argv: Sequence[str], *_: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[1] == "ping":
            return subprocess.CompletedProcess(argv, 0, self.ping, b"")
        if argv[0] == "squeue":
            mark = more["env"]["SQUEUE_FORMAT2"].rpartition(":")[2]
            assert more["env"]["SLURM_TIME_FORMAT"] == "%s"
            return subprocess.CompletedProcess(argv, 0, "".join(one + mark for one in self.squeue).encode(), b"")
        if argv[0] == "sacct":
            assert more["env"]["SLURM_TIME_FORMAT"] == "%s"
            return subprocess.CompletedProcess(argv, 0 if self.sacct else 1, self.sacct.encode(), b"disabled")
        return subprocess.CompletedProcess(argv, 0, b"", b"")


def test_a_job_that_slurmctld_knows_is_read_from_squeue(root: Path) -> None:
    host = Controller(root, squeue=["12_3", "15", "FAILED", "100", "200", "N/A", "n[1-2]", "256"])
    answer = job_record.read({"job": "12_3"}, host)
    assert answer == {"rows": [("12_3", "15", "FAILED", 100, 200, 0, "n[1-2]", "1:0")], "origin": "slurmctld"}
    model = values("job")
    assert model is not None
    assert checked_object("c1", model, answer, "job")["origin"] == "slurmctld"


@pytest.mark.parametrize("ping", [UP, DOWN])
def test_a_job_that_slurmctld_has_forgotten_is_read_from_sacct(root: Path, ping: bytes) -> None:
    host = Controller(root, ping, sacct="12|12|CANCELLED by 0|100|Unknown|300|None assigned|0:0\n")
    rows = [("12", "12", "CANCELLED by 0", 100, 0, 300, "", "0:0")]
    assert job_record.read({"job": "12"}, host) == {"rows": rows, "origin": "slurmdbd"}


def test_a_job_that_both_have_forgotten_is_read_from_slurmctlds_log(root: Path) -> None:
    begin = int(time.time()) - 5000
    log = root / "var/log/slurm/slurmctld.log"
    log.parent.mkdir(parents=True)
    texts = (
        "_slurm_rpc_submit_batch_job: JobId=12 InitPrio=1 usec=300",
        "sched/backfill: _start_job: Started JobId=12 in main on n[1-2]",
        "sched: Allocate JobId=120 NodeList=n3 #CPUs=1 Partition=main",
        "_job_complete: JobId=12 WEXITSTATUS 1",
    )
    stamps = [time.strftime("[%Y-%m-%dT%H:%M:%S.000]", time.localtime(begin + 10 * at)) for at in range(4)]
    log.write_text("".join(f"{stamp} {text}\n" for stamp, text in zip(stamps, texts, strict=True)))
    answer = job_record.read({"job": "12"}, Controller(root))
    rows = [("12", "12", "", begin, begin + 10, begin + 31, "n[1-2]", "")]
    assert answer == {"rows": rows, "origin": "slurmctld's log"}
    assert job_record.read({"job": "13"}, Controller(root)) == {"rows": [], "origin": ""}


def test_a_text_that_is_no_id_is_refused(root: Path) -> None:
    with pytest.raises(ResourceFailed, match="is not the id of a job"):
        job_record.read({"job": "12 --me"}, Controller(root))
