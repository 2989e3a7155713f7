"""What keeps a backup from being restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurmfab.backup.archive import Backup
from slurmfab.backup.refusals import Present, orphans, overwriting, refusal, version_refusal
from slurmfab.slurm.versions import SlurmVersion

BACKUP = Backup(
    Path("lab.tar"), "0" * 64, "lab", "24.11.5", "2026-11-21 14:32:00+00:00", "ann@laptop", 18, frozenset({16, 17})
)


@pytest.mark.parametrize(
    ("written", "installed", "words"),
    [
        ("24.11.5", "24.11", ""),
        ("24.05.1", "24.11", ""),
        ("23.02.7", "24.11", ""),
        ("22.05.8", "24.11", "reads what the 3 series before it have written (23.02, 23.11, 24.05)"),
        ("22.05.8", "23.11", ""),
        ("22.05.8", "24.05", "reads what the 2 series before it have written (23.02, 23.11)"),
        ("24.11.5", "22.05", "Install Slurm 24.11 or newer"),
        ("26.05.1", "25.11", "Install Slurm 26.05 or newer"),
        ("25.05.0", "26.05", ""),
    ],
)
def test_a_slurm_reads_what_was_written_by_few_series_before_it_and_by_none_after(
    written: str, installed: str, words: str
) -> None:
    said = version_refusal(written, SlurmVersion.parse(installed))
    assert words in said
    assert bool(said) is bool(words)


@pytest.mark.parametrize("next_job_id", [0, 1])
def test_hosts_without_any_job_when_a_backup_is_restored_then_nothing_is_lost(next_job_id: int) -> None:
    fresh = Present(next_job_id=next_job_id, is_running=True)
    assert overwriting(BACKUP, fresh, "c1") == ""
    assert refusal(BACKUP, fresh, "c1", overwrite=False, abandon=False) == ""


def test_a_live_controller_with_jobs_when_a_backup_is_restored_then_their_numbers_and_the_flag_are_told() -> None:
    live = Present(next_job_id=25, is_running=True, newest_job=24)
    said = refusal(BACKUP, live, "c1", overwrite=False, abandon=False)
    assert "c1: slurmctld runs there and has jobs up to 24." in said
    assert "The accounting database has jobs up to 24." in said
    assert "the last one is job 17" in said
    assert "--overwrite" in said
    assert said.endswith("Nothing was changed.")
    assert refusal(BACKUP, live, "c1", overwrite=True, abandon=False) == ""


def test_a_job_that_runs_and_that_the_backup_does_not_know_is_named_with_its_nodes() -> None:
    present = Present(steps={"n1": ("17.batch", "19.0", "19.extern"), "n2": ("19.0",)})
    assert orphans(BACKUP, present) == {19: ("n1", "n2")}
    said = refusal(BACKUP, present, "c1", overwrite=True, abandon=False)
    assert "The backup does not know job 19 on n[1-2]: slurmctld would end it" in said
    assert "--abandon-jobs" in said
    assert refusal(BACKUP, present, "c1", overwrite=True, abandon=True) == ""


def test_a_job_that_had_ended_before_the_backup_and_still_runs_somewhere_is_one_that_it_does_not_know() -> None:
    assert orphans(BACKUP, Present(steps={"n1": ("12.0",)})) == {12: ("n1",)}


def test_a_backup_that_was_made_without_slurmctlds_word_knows_jobs_by_their_numbers() -> None:
    silent = replace(BACKUP, jobs=None)
    assert orphans(silent, Present(steps={"n1": ("12.0", "18.0")})) == {18: ("n1",)}


def test_many_jobs_that_the_backup_does_not_know_are_told_in_a_text_that_can_be_read() -> None:
    present = Present(steps={"n1": tuple(f"{number}.0" for number in range(100, 200))})
    assert "and 80 more" in refusal(BACKUP, present, "c1", overwrite=False, abandon=False)
