"""Room on file systems: what is short is named with the directories that need it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.files import free_space
from slurmfab.on_hosts.agent.files.free_space import FreeSpace, shortage

MIB = 1 << 20


def file_system(**fields: int) -> os.statvfs_result:
    usual = {"f_frsize": 4096, "f_blocks": 100, "f_bavail": MIB, "f_files": 100, "f_favail": 50}
    return SimpleNamespace(**{**usual, **fields})  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({}, "", id="room"),
        pytest.param({"f_bavail": 255}, "1020 KiB left", id="less than a MiB"),
        pytest.param({"f_bavail": 256}, "", id="a MiB"),
        pytest.param({"f_favail": 0}, "no inodes left", id="no inodes"),
        pytest.param({"f_files": 0, "f_favail": 0}, "", id="a file system that counts no inodes"),
        pytest.param({"f_blocks": 0, "f_bavail": 0}, "", id="a file system that counts no blocks"),
    ],
)
def test_a_file_system_is_full_without_a_mib_or_without_inodes(fields: dict[str, int], why: str) -> None:
    assert shortage(file_system(**fields)) == why


def test_directories_on_a_full_file_system_are_named_and_those_that_do_not_exist_yet_count_where_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "var").mkdir()
    there = FreeSpace(("/var/log/slurm", "/etc/slurm"))
    assert there.actual(Context(root=str(tmp_path))) == {"space": "enough"}
    monkeypatch.setattr(free_space.os, "statvfs", lambda path: file_system(f_bavail=0 if path.endswith("var") else MIB))
    with pytest.raises(ResourceFailed, match=r"the file system of /var/log/slurm \(0 KiB left\) is full\."):
        there.actual(Context(root=str(tmp_path)))
