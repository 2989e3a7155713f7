"""The cluster file and its lock on disk, when several write them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import shared_files
from slurmfab.cluster.inventory.shared_files import FilesRead

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
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        monkeypatch.setattr(shared_files, "WAIT_SECONDS", 0.1)
        with pytest.raises(InputError, match="another process has locked this directory"):
            shared_files.exclusively(path).__enter__()
        monkeypatch.setattr(shared_files, "WAIT_SECONDS", 60.0)
        assert other.stdin is not None
        other.stdin.close()
        with shared_files.exclusively(path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_locked_where_the_file_really_is_and_made_if_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there/cluster.yaml")
    with shared_files.exclusively(tmp_path / "link"):
        assert not any((tmp_path / "there").iterdir())
