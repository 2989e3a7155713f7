"""Which jobs a node notes, from what a real nvidia-smi prints (one H100, driver 580) and as a table of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.idle_gpus.notes import Idle
from slurmfab.on_hosts.programs.idle_gpus.watch import REMOVALS, REPEAT, Reports, Watch

PRINTED = Path(__file__).with_name("utilization.txt").read_bytes()
BEGIN, AFTER = 1_000_000.0, 600
JOB = {"7": (frozenset({0, 1}), BEGIN)}


class Slurm:
    """The notes that slurmctld was given."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers, self.given = answers, list[tuple[str, Idle | None]]()

    def note(self, job: str, idle: Idle | None) -> bool:
        self.given.append((job, idle))
        return self.answers


def watched(*uses: int | None, pause: float = 10.0) -> tuple[Watch, float]:
    """A watch of two GPUs, of which the second had these uses, and when the last report came."""
    watch, now = Watch("n1", AFTER, BEGIN), BEGIN
    for use in uses:
        watch.report(0, 0, now)
        watch.report(1, use, now)
        now += pause
    return watch, now - pause


@pytest.mark.parametrize("size", [1, 7, 4096, len(PRINTED)])
def test_reports_of_a_real_gpu_when_they_come_in_pieces_then_the_highest_sample_counts(size: int) -> None:
    reports = Reports()
    found = [one for place in range(0, len(PRINTED), size) for one in reports.feed(PRINTED[place : place + size])]
    assert found == [("0000:00:06.0", 56), ("0000:00:06.0", 0), ("0000:00:06.0", 0)]


def test_a_gpu_in_mig_mode_when_it_tells_no_use_then_that_is_unknown() -> None:
    text = b"GPU 00000000:3B:00.0\n    GPU Utilization Samples\n        Max          : N/A\n"
    assert [*Reports().feed(text)] == [("0000:3b:00.0", None)]


@pytest.mark.parametrize(
    ("uses", "idle"),
    [
        ([0] * 62, 600),
        ([0] * 61 + [1], 0),
        ([5] + [0] * 61, 610),
        ([0] * 31 + [None] + [0] * 30, 300),
    ],
)
def test_a_job_when_each_report_of_all_its_gpus_is_zero_then_it_is_idle_since_the_last_other(
    uses: list[int | None], idle: float
) -> None:
    watch, now = watched(*uses)
    assert now - watch.since(frozenset({0, 1}), BEGIN, now) in (idle, idle + 10)


def test_reports_when_they_are_too_far_apart_then_gpus_count_as_busy() -> None:
    watch, now = watched(*[0] * 62, pause=14.0)
    assert watch.since(frozenset({1}), BEGIN, now) == now


@pytest.mark.parametrize("silent", [20.0, 3600.0])
def test_a_gpu_when_reports_end_then_it_counts_as_busy(silent: float) -> None:
    watch, now = watched(*[0] * 62)
    assert watch.since(frozenset({0}), BEGIN, now + silent) == now + silent
    assert watch.since(frozenset({0, 5}), BEGIN, now) == now, "a GPU that nobody reports"


def test_a_job_when_it_began_late_then_only_its_own_time_counts() -> None:
    watch, now = watched(*[0] * 100)
    assert watch.since(frozenset({0}), now - 30, now) == now - 30


def test_an_idle_job_when_time_passes_then_its_note_is_repeated() -> None:
    slurm = Slurm()
    watch, now = watched(*[0] * 70)
    for _ in range(2):
        watch.tell(JOB, now, slurm.note)
    assert slurm.given == [("7", Idle(int(BEGIN), int(now)))]
    for step in range(1, 26):
        watch.report(0, 0, now + 10 * step)
        watch.report(1, 0, now + 10 * step)
    watch.tell(JOB, now + REPEAT + 10, slurm.note)
    assert slurm.given[1:] == [("7", Idle(int(BEGIN), int(now + REPEAT + 10)))]


def test_a_noted_job_when_it_works_again_then_the_note_goes_and_is_looked_for_some_rounds() -> None:
    slurm = Slurm()
    watch, now = watched(*[0] * 70)
    watch.tell(JOB, now, slurm.note)
    watch.report(1, 30, now + 10)
    for _ in range(REMOVALS + 3):
        watch.tell(JOB, now + 10, slurm.note)
    assert slurm.given[1:] == [("7", None)] * REMOVALS


def test_a_job_when_slurmctld_does_not_take_the_note_then_it_is_written_again() -> None:
    slurm = Slurm(answers=False)
    watch, now = watched(*[0] * 70)
    for _ in range(2):
        watch.tell(JOB, now, slurm.note)
    assert len(slurm.given) == 2


def test_a_job_that_has_ended_when_its_number_comes_again_then_it_is_new() -> None:
    slurm = Slurm()
    watch, now = watched(*[0] * 70)
    watch.tell(JOB, now, slurm.note)
    watch.tell({}, now, slurm.note)
    assert (watch.noted, watch.removals) == ({}, {})
