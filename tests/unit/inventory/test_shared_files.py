"""The cluster file and its lock on disk, when several write them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import shared_files
from slurmfab.cluster.inventory.shared_files import FilesRead

sys.path.append(str(Path(__file__).parents[2] / "agent"))
from hostile_directory import OTHER, locks_met_by

AS_ROOT = pytest.mark.needs_root("only root can become other users")
GROUP = 4711

HOLDS = """\
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def lock_of(*hosts: str) -> bytes:
    return json.dumps({"version": 1, "hosts": {host: {} for host in hosts}}).encode()


def test_files_are_read_as_bytes_and_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    assert (shared_files.read(path).cluster, shared_files.read(path).lock) == (None, None)
    path.write_bytes(b"\xff")
    assert shared_files.read(path).cluster == b"\xff"


@pytest.mark.parametrize("lock", [b"", b"[]", b"{", b'{"hosts": 1}', b"[" * 100_000, None])
def test_a_lock_that_cannot_be_read_names_no_hosts(lock: bytes | None) -> None:
    assert FilesRead(b"", lock).hosts == frozenset()


def test_changes_name_the_files_and_the_hosts_that_came_and_went(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("new")
    shared_files.lock_path(path).write_bytes(lock_of("c1", "n1", "n3"))
    edited, joined = shared_files.changes(path, FilesRead(b"old", lock_of("c1", "n1", "n2")), shared_files.read(path))
    assert edited.startswith(f"{path} was changed at 20")
    assert joined.startswith(f"{tmp_path}/cluster.lock.json was changed at 20")
    assert joined.endswith(": n3 joined and n2 left")
    path.unlink()
    assert shared_files.changes(path, FilesRead(b"old", None), FilesRead()) == (f"{path} was removed",)
    assert shared_files.changes(path, FilesRead(b"old", None), FilesRead(b"old", None)) == ()


def test_a_directory_that_another_process_has_locked_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.yaml"
    with shared_files.exclusively(path):
        pass
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path / "cluster.runs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        monkeypatch.setattr(shared_files, "WAIT_SECONDS", 0.1)
        with pytest.raises(InputError, match=r"cluster\.runs: another process has locked this directory"):
            shared_files.exclusively(path).__enter__()
        monkeypatch.setattr(shared_files, "WAIT_SECONDS", 60.0)
        assert other.stdin is not None
        other.stdin.close()
        with shared_files.exclusively(path):
            pass
    assert [(one.name, stat.S_IMODE(one.stat().st_mode)) for one in tmp_path.iterdir()] == [("cluster.runs", 0o700)]


@AS_ROOT
def test_a_user_who_may_not_change_the_cluster_file_cannot_open_what_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_files, "WAIT_SECONDS", 0.1)
    tmp_path.chmod(0o755)
    path = tmp_path / "cluster.yaml"
    path.touch(0o644)
    (tmp_path / "cluster.runs").mkdir(mode=0o755)  # as an earlier slurmfab left it
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with shared_files.exclusively(path):
            assert locks_met_by(tmp_path) == ["."]  # that of the other process
    with shared_files.exclusively(path):
        assert locks_met_by(tmp_path) == []


@AS_ROOT
@pytest.mark.parametrize(("directory_mode", "file_mode"), [(0o2775, 0o664), (0o2775, None), (0o775, 0o664)])
@pytest.mark.parametrize("earlier_mode", [None, 0o700, 0o755])
def test_members_of_a_group_that_may_change_the_cluster_file_exclude_each_other_and_nobody_else_takes_part(
    tmp_path: Path, directory_mode: int, file_mode: int | None, earlier_mode: int | None
) -> None:
    path = tmp_path / "cluster.yaml"
    os.chown(tmp_path, 0, GROUP)
    tmp_path.chmod(directory_mode)
    if file_mode is not None:
        path.touch()
        os.chown(path, 0, GROUP)
        path.chmod(file_mode)
    if earlier_mode is not None:
        (tmp_path / "cluster.runs").mkdir(mode=earlier_mode)
    with shared_files.exclusively(path):
        assert locks_met_by(tmp_path, OTHER, GROUP) == ["cluster.runs"]
        assert locks_met_by(tmp_path) == []


@AS_ROOT
def test_a_directory_of_records_of_somebody_else_where_all_may_put_files_is_refused_and_not_locked(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o1777)
    path = tmp_path / "cluster.yaml"
    path.touch(0o644)
    (tmp_path / "cluster.runs").mkdir()
    os.chown(tmp_path / "cluster.runs", OTHER, OTHER)
    with pytest.raises(InputError, match=rf"cluster\.runs cannot be used: .* belongs to another user \(UID {OTHER}\)"):
        shared_files.exclusively(path).__enter__()


def test_a_directory_is_locked_where_the_file_really_is_and_made_if_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there/cluster.yaml")
    with shared_files.exclusively(tmp_path / "link"):
        assert [one.name for one in (tmp_path / "there").iterdir()] == ["cluster.runs"]
