"""What `fab usage` adds up from rows of sacct: sums, efficiency, waits, idle GPUs, hours and days."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from slurmfab.base.answers import values
from slurmfab.on_hosts.agent.accounting.job_records import (
    FIELDS,
    IDLE_FIELDS,
    SUMS,
    amounts,
    gpu_types,
    grid,
    read,
    seconds_of,
)
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

HOUR = 3600
NAME = "\0"
TRES = "cpu=4,mem=8G,gres/gpu=2,gres/gpu:a100=2,node=1"
REQUEST = {"op": "usage", "since": "-7200", "until": "", "idle_seconds": 600}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def row(number: str, submit: int, start: object, end: object, elapsed: int, **others: str) -> str:
    """A row of sacct."""
    known = {
        "JobIDRaw": number, "JobID": number, "Submit": str(submit), "Eligible": str(submit), "Start": str(start),
        "End": str(end), "ElapsedRaw": str(elapsed), "User": "ann", "Account": "physics", "Partition": "gpu",
        "State": "COMPLETED", "AllocTRES": TRES, "ReqTRES": TRES, "TotalCPU": "00:00:00",
    }  # fmt: skip
    return "|".join({**known, **others}.get(field, "") for field in FIELDS)


class Slurm(Context):
    """A slurmdbd with these rows.

    Args:
        rows: of sacct.
        clipped: JobIDRaw, submit time and seconds within the window of each job.
        events: rows of sacctmgr.
        steps: what sstat prints.
        error: what sacct says instead.
        name: what is in the place of `NAME`.
    """

    def __init__(
        self,
        rows: Sequence[str] = (),
        clipped: str = "",
        events: str = "",
        steps: str = "",
        error: str = "",
        *,
        name: str = "",
    ) -> None:
        super().__init__("/", dry_run=False)
        self.rows, self.clipped, self.events, self.steps, self.error = rows, clipped, events, steps, error
        self.name = name
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked.append(" ".join(argv))
        if argv[0] == "sacct" and self.error:
            return subprocess.CompletedProcess(list(argv), 1, b"", self.error.encode())
        mark = next((word.partition("=")[2] for word in argv if word.startswith("--delimiter=")), "|")
        rows = self.clipped.splitlines() if "--truncate" in argv else self.rows
        records = "".join(line.replace("|", mark) + mark + "\n" for line in rows).replace(NAME, self.name)
        shown = {"sacct": records, "sacctmgr": self.events, "sstat": self.steps}[argv[0]]
        return subprocess.CompletedProcess(list(argv), 0, shown.encode(), b"")


def asked(slurm: Slurm, **request: object) -> Mapping[str, Any]:
    """The answer, which its model accepts."""
    answer = read({**REQUEST, **request}, slurm)
    model = values("usage")
    assert model is not None
    model.validate_python(answer)
    return answer


def sums(answer: Mapping[str, Any]) -> dict[tuple[str, ...], dict[str, int]]:
    """The sums that are not 0, by group."""
    return {
        tuple(key): {name: value for name, value in zip(SUMS, found, strict=True) if value}
        for (*key, found) in answer["groups"]
    }


def window() -> tuple[int, int]:
    """Where a window of two hours and the time since the last full hour begins, and now."""
    now = int(time.time())
    return (now - 2 * HOUR) // HOUR * HOUR, now


def test_a_job_that_began_before_the_window_counts_with_its_part_within_it() -> None:
    since, now = window()
    begin = since - HOUR
    job = row("7", begin, begin, since + HOUR, 2 * HOUR, TotalCPU="04:00:00")
    step = row("7.batch", begin, begin, since + HOUR, 2 * HOUR, TRESUsageInMax="mem=4G", TRESUsageInTot="mem=2G")
    answer = asked(Slurm([job, step], f"7|{begin}|{HOUR}", f"{since - 9}|Unknown|cpu=8,gres/gpu=4"))
    assert sums(answer) == {
        ("ann", "physics", "gpu", "a100"): {
            "jobs": 1, "cpu": 4 * HOUR, "gpu": 2 * HOUR, "cpu_asked": 4 * HOUR, "cpu_used": 2 * HOUR,
            "memory_asked": 8192 * HOUR, "memory_used": 4096 * HOUR,
        }
    }  # fmt: skip
    assert answer["waits"] == []
    assert answer["capacity"]["gres/gpu"] == pytest.approx(4 * (now - since), abs=8)
    assert answer["points"][0] == [since, 4 * HOUR, 2 * HOUR]
    assert sum(point[1] for point in answer["points"]) == 4 * HOUR


def test_a_requeued_job_counts_with_each_of_its_parts_and_a_suspended_one_without_its_pause() -> None:
    since, _ = window()
    parts = [row("7", since, since, since + 600, 500), row("7", since + 900, since + 900, since + 1000, 100)]
    answer = asked(Slurm(parts, f"7|{since}|500\n7|{since + 900}|100"))
    assert sums(answer)["ann", "physics", "gpu", "a100"]["cpu"] == 4 * 600
    assert sum(point[1] for point in answer["points"]) == 4 * 600


def test_waits_are_told_of_jobs_that_began_in_the_window_and_of_those_that_wait_still() -> None:
    since, now = window()
    pending = dict.fromkeys(("AllocTRES",), "")
    rows = [
        row("1", since - 50, since + 50, since + 60, 10),
        row("2", since - 90, "Unknown", "Unknown", 0, State="PENDING", **pending),
        row("3", since, "None", since + 9, 0, State="CANCELLED by 4001", **pending),
        row("4", since - 500, since - 1, since + 9, 10),
    ]
    numbers = "".join(f"{at}|{at_time}|9\n" for at, at_time in zip("1234", (-50, -90, 0, -500), strict=True))
    clipped = "\n".join(f"{line.split('|')[0]}|{since + int(line.split('|')[1])}|9" for line in numbers.splitlines())
    answer = asked(Slurm(rows, clipped))
    assert [(one[0], one[4], one[6]) for one in answer["waits"]] == [("2", 2, False), ("1", 2, True)]
    assert answer["waits"][0][5] == pytest.approx(now - since + 90, abs=2)
    found = sums(answer)["ann", "physics", "gpu", "a100"]
    assert (found["jobs"], found["waits"], found["waited"], found["longest"]) == (2, 1, 100, 100)


@pytest.mark.parametrize(
    ("cpu", "use", "evidence"),
    [
        ("00:05.000", "", "cputime"),
        ("01:00:00", "", ""),
        ("01:00:00", "gres/gpuutil=0,mem=1G", "gpuutil"),
        ("00:05.000", "gres/gpuutil=80,mem=1G", ""),
    ],
    ids=["hardly any CPU time", "CPU time", "never busy", "busy"],
)
def test_gpus_are_idle_where_slurm_never_saw_them_busy_or_their_job_had_no_cpu_time(
    cpu: str, use: str, evidence: str
) -> None:
    since, _ = window()
    rows = [
        row("7", since, since, since + HOUR, HOUR, TotalCPU=cpu),
        row("7.0", since, since, since + HOUR, HOUR, TRESUsageInMax=use),
    ]
    answer = asked(Slurm(rows, f"7|{since}|{HOUR}"))
    assert [one[IDLE_FIELDS.index("evidence")] for one in answer["idle"]] == [evidence] * bool(evidence)
    found = sums(answer)["ann", "physics", "gpu", "a100"]
    assert ("gpu_seen" in found, found.get("gpu_idle", 0) > 0) == ("gpuutil" in use, evidence == "gpuutil")


def test_running_jobs_hold_gpus_idle_by_what_their_nodes_say() -> None:
    since, _ = window()
    running = {"State": "RUNNING", "TotalCPU": ""}
    rows = [row(one, since, since, "Unknown", HOUR, **running) for one in "789"]
    clipped = "\n".join(f"{one}|{since}|{HOUR}" for one in "789")
    steps = "7.0|cpu=00:00:02|cpu=00:00:02\n8.0|cpu=01:00:00|cpu=01:00:00\n7.0|cpu=00:00:02|cpu=00:00:02\n"
    slurm = Slurm(rows, clipped, steps=steps)
    answer = asked(slurm)
    assert [(one[0], one[7]) for one in answer["idle"]] == [("7", True)]
    assert "--jobs=7,8,9" in slurm.asked[-1]
    assert asked(Slurm(rows, clipped), idle_seconds=HOUR + 1)["idle"] == []


def test_a_cluster_without_records_says_so_and_other_errors_are_errors() -> None:
    assert asked(Slurm(error="Slurm accounting storage is disabled"))["accounting"] is False
    with pytest.raises(ResourceFailed, match="Connection refused"):
        read(REQUEST, Slurm(error="sacct: error: Connection refused"))


def test_a_row_with_other_fields_and_an_empty_window_are_refused() -> None:
    with pytest.raises(ResourceFailed, match="other fields"):
        read(REQUEST, Slurm(["7|forged|row"]))
    with pytest.raises(ResourceFailed, match="is not before"):
        read({**REQUEST, "since": "2030-01-01T00:00:00"}, Slurm())


def test_an_account_whose_name_looks_like_another_job_when_added_up_is_one_account_with_that_name() -> None:
    since, now = window()
    forged = "x\n" + row("8", since, since, now, HOUR, User="root") + "\n"
    job = row("7", since, since, since + HOUR, HOUR, Account=NAME)
    answer = asked(Slurm([job], f"7|{since}|{HOUR}", name=forged))
    assert [key[:2] for key in sums(answer)] == [("ann", one_line(forged))]


def test_a_long_window_has_a_point_for_each_day_also_where_the_clock_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    begins = grid(1792800000, 1793400000)  # 2026-10-24 02:00 to 2026-10-31; 25 October has 25 hours
    assert [time.strftime("%d %H:%M", time.localtime(one)) for one in begins] == [
        "24 02:00", "25 00:00", "26 00:00", "27 00:00", "28 00:00", "29 00:00", "30 00:00", "31 00:00",
    ][: len(begins)]  # fmt: skip
    assert len(begins) >= 7


def test_amounts_have_mebibytes_and_seconds() -> None:
    assert amounts("cpu=01:00:02,mem=22872K,gres/gpu:a100=2,billing=4,fs/disk=2M") == {
        "cpu": 3602.0, "mem": 22872 / 1024, "gres/gpu:a100": 2.0, "billing": 4.0, "fs/disk": 2.0 * 1024**2,
    }  # fmt: skip
    assert [seconds_of(text) for text in ("1-00:00:01", "02:03.500", "odd")] == [86401.0, 123.5, 0.0]
    assert [gpu_types(amounts(text)) for text in (TRES, "gres/gpu=1", "cpu=1")] == ["a100", "gpu", ""]
