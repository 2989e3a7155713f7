"""Files of programs on hosts that are replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs import replaced_file


def test_a_file_is_whole_on_the_disk_before_it_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    on_disk: list[tuple[str, str]] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: on_disk.append((Path(f"/dev/fd/{descriptor}").read_text(), path.read_text()))
    )
    replaced_file.write(str(path), "new")
    assert on_disk == [("new", "old")]
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_a_file_that_cannot_be_written_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replaced_file.write(str(path), "new")
    assert path.read_text() == "old"
    monkeypatch.undo()
    replaced_file.write(str(path), "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
