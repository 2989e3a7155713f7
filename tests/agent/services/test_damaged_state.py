"""Damaged files of slurmctld's state: by which words they are known, and the ways out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.services.damaged_state import damaged_file, look_at, way_out

IGNORE = "start with '-i' to ignore this. Warning: using -i will lose the data that can't be recovered."


@pytest.mark.parametrize(
    ("said", "file"),
    [
        (f"fatal: Incomplete assoc usage state file, {IGNORE}", "assoc_usage"),
        (f"error: x | fatal: Incomplete QOS usage state file, {IGNORE}", "qos_usage"),
        (f"fatal: Can not recover assoc_mgr state, incompatible version, got 1 need >= 2, {IGNORE}", "assoc_mgr_state"),
        (f"fatal: Incomplete reservation data checkpoint file, {IGNORE}", "resv_state"),
        ("fatal: Can not recover last_tres state, incompatible version, got 1 need >= 2", "last_tres"),
        (f"fatal: Incomplete node data checkpoint file, {IGNORE}", "node_state"),
        (f"fatal: Incomplete job state save file, {IGNORE}", "job_state"),
        ("fatal: Unable to process configuration file", ""),
        ("error: Incomplete job record", ""),
    ],
)
def test_a_damaged_file_of_the_state_is_known_by_slurmctlds_words(said: str, file: str) -> None:
    assert damaged_file(said) == file


def ways(place: Path) -> str:
    """The ways out for a damaged list of reservations in a directory."""
    path = f"{place}/resv_state"
    seen = subprocess.run(["sh", "-c", look_at(path)], capture_output=True, text=True, check=True).stdout
    return way_out(path, seen, "fab")


def test_the_ways_out_begin_with_a_copy_that_is_another_one_and_was_not_tried(tmp_path: Path) -> None:
    file, copy = tmp_path / "resv_state", tmp_path / "resv_state.old"
    file.write_text("half")
    assert "cp -p" not in ways(tmp_path)
    assert ".old.damaged" not in ways(tmp_path)
    assert "What would be lost is all reservations. Or with a backup: fab restore BACKUP" in ways(tmp_path)
    copy.write_text("half")
    assert "mv resv_state resv_state.damaged && mv resv_state.old resv_state.old.damaged" in ways(tmp_path)
    assert "cp -p" not in ways(tmp_path)
    copy.write_text("half and half")
    assert "cp -p resv_state.old resv_state; if that is damaged, too, without it" in ways(tmp_path)
    file.rename(tmp_path / "resv_state.damaged")
    file.write_text("half and half again")
    assert "cp -p" not in ways(tmp_path)
    assert "mv resv_state resv_state.damaged-too && mv resv_state.old" in ways(tmp_path)
