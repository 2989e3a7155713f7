"""Files that are replaced in one step: what is on the disk when, and what is left after a failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core import replace

ME = (os.getuid(), os.getgid())


def test_a_file_is_whole_on_the_disk_before_it_takes_the_name_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, steps = tmp_path / "conf", []
    path.write_text("old")
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        status = os.fstat(descriptor)
        steps.append(("on disk", Path(f"/proc/self/fd/{descriptor}").read_text(), status.st_mode & 0o777))

    def noted_rename(*arguments: Any, **folders: Any) -> None:
        steps.append(("renamed", path.read_text(), 0))
        rename(*arguments, **folders)

    monkeypatch.setattr(replace.os, "fsync", noted_fsync)
    monkeypatch.setattr(replace.os, "rename", noted_rename)
    replace.put(str(path), b"new", *ME, 0o640)
    assert steps == [("on disk", "new", 0o640), ("renamed", "old", 0)]
    assert path.read_text() == "new"


def test_a_file_that_cannot_take_its_place_is_not_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    with pytest.raises(OSError, match="conf"):
        replace.put(str(tmp_path / "conf"), b"new", *ME, 0o600)
    assert [entry.name for entry in tmp_path.iterdir()] == ["conf"]


@pytest.mark.parametrize("is_link", [True, False])
def test_a_file_when_the_name_that_it_is_written_under_is_taken_is_not_written_into_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    monkeypatch.setattr(replace.os, "urandom", lambda _: b"\x01\x23\xab\xcd")
    (tmp_path / "others").write_text("keep")
    taken = tmp_path / ".slurmfab-conf.0123abcd"
    if is_link:
        taken.symlink_to("others")
    else:
        taken.hardlink_to(tmp_path / "others")
    with pytest.raises(OSError, match="conf"):
        replace.exchange(str(tmp_path / "conf"), b"new")
    assert (tmp_path / "others").read_text() == "keep"
    assert not (tmp_path / "conf").exists()


def test_a_secret_is_readable_by_nobody_else_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    opened = os.open

    def noted(name: str, flags: int, mode: int = 0o777, **more: Any) -> int:
        descriptor = opened(name, flags, mode, **more)
        if flags & os.O_CREAT:
            modes.append(os.fstat(descriptor).st_mode & 0o777)
        return descriptor

    monkeypatch.setattr(replace.os, "open", noted)
    replace.put(str(tmp_path / "key"), b"secret", *ME, 0o644)
    assert modes == [0o600]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o644
