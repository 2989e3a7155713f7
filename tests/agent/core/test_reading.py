"""Files of a host that a plan depends on: what is no regular file is never waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core import reading
from slurmfab.on_hosts.agent.facts import facts


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    assert reading.read_bytes(str(tmp_path / "file")) == b"x" * 200_000
    assert reading.read_text("/proc/self/comm")


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory", "endless device", "nothing"])
def test_what_is_no_file_counts_as_empty_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "key"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    elif kind == "endless device":
        path.symlink_to("/dev/zero")
    assert reading.read_bytes(str(path)) == b""


def test_facts_of_a_host_with_a_fifo_in_the_place_of_its_munge_key_come_without_it(tmp_path: Path) -> None:
    (tmp_path / "etc/munge").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/munge/munge.key")
    assert facts.read({"root": str(tmp_path), "with_munge_key": True})["munge_key"] == ""
