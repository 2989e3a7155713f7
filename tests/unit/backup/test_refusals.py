"""What keeps a backup from being restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.backup.restoring import PresentState, orphans, overwrite_refusal, refusal, version_refusal

BACKUP = Backup(
    Path("lab.tar"), "0" * 64, "lab", "24.11.5", "2026-11-21 14:32:00+00:00", "ann@laptop", 18, frozenset({16, 17})
)


@pytest.mark.parametrize(
    ("written", "installed", "words"),
    [
        ("24.11.5", "24.11", ""),
        ("24.05.1", "24.11", ""),
        ("23.02.7", "24.11", ""),
        ("22.05.8", "24.11", "reads state of the 3 release series before it (23.02, 23.11, 24.05)"),
        ("22.05.8", "23.11", ""),
        ("22.05.8", "24.05", "reads state of the 2 release series before it (23.02, 23.11)"),
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
def test_restoring_on_hosts_without_jobs_loses_nothing(next_job_id: int) -> None:
    fresh = PresentState(next_job_id=next_job_id, is_running=True)
    assert overwrite_refusal(BACKUP, fresh, "c1") == ""
    assert refusal(BACKUP, fresh, "c1", overwrite=False, abandon=False) == ""


def test_restoring_over_newer_jobs_is_refused_with_their_ids_and_the_option() -> None:
    live = PresentState(next_job_id=25, is_running=True, newest_job=24)
    said = refusal(BACKUP, live, "c1", overwrite=False, abandon=False)
    assert "c1: slurmctld runs there and has jobs up to 24." in said
    assert "The accounting database has jobs up to 24." in said
    assert "the last one is job 17" in said
    assert "--overwrite" in said
    assert said.endswith("Nothing was changed.")
    assert refusal(BACKUP, live, "c1", overwrite=True, abandon=False) == ""


def test_a_running_job_that_is_not_in_the_backup_is_named_with_its_nodes() -> None:
    present = PresentState(steps={"n1": ("17.batch", "19.0", "19.extern"), "n2": ("19.0",)})
    assert orphans(BACKUP, present) == {19: ("n1", "n2")}
    said = refusal(BACKUP, present, "c1", overwrite=True, abandon=False)
    assert "Not in the backup: job 19 on n[1-2]. slurmctld would end it" in said
    assert "--abandon-jobs" in said
    assert refusal(BACKUP, present, "c1", overwrite=True, abandon=True) == ""


def test_jobs_of_which_one_node_alone_tells_then_the_refusal_names_the_way_without_that_node() -> None:
    alone, both = ({"n1": ("19.0",)}, {"n1": ("19.0",), "n2": ("20.0",)})
    said = [refusal(BACKUP, PresentState(steps=steps), "c1", overwrite=True, abandon=False) for steps in (alone, both)]
    assert ["n1 alone tells of that: if it is not to be trusted, disconnect it" in one for one in said] == [True, False]


def test_a_job_that_ended_before_the_backup_but_still_runs_is_not_in_the_backup() -> None:
    assert orphans(BACKUP, PresentState(steps={"n1": ("12.0",)})) == {12: ("n1",)}


def test_a_backup_without_a_list_of_jobs_decides_by_job_ids() -> None:
    silent = replace(BACKUP, jobs=None)
    assert orphans(silent, PresentState(steps={"n1": ("12.0", "18.0")})) == {18: ("n1",)}


def test_a_message_names_only_some_of_many_jobs_that_are_not_in_the_backup() -> None:
    present = PresentState(steps={"n1": tuple(f"{number}.0" for number in range(100, 200))})
    assert "and 80 more" in refusal(BACKUP, present, "c1", overwrite=False, abandon=False)
