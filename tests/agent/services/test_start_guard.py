"""The guard of a stopped daemon: it waits for the end of the run, however long that takes, and no longer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.host_lock import Lock
from slurmfab.on_hosts.agent.core.lock_taking import take_lock
from slurmfab.on_hosts.agent.services import start_guard


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A guard, with a systemctl that writes its arguments into a file; a run has the lock and `release` ends it."""
    lock = Lock()
    take_lock(lock, str(tmp_path / "lock"), "ann, fab deploy", print)
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/started\n')
    (tmp_path / "systemctl").chmod(0o755)
    with subprocess.Popen(
        ["sh", "-c", start_guard.SCRIPT, "sh", str(tmp_path / "lock"), "slurmctld"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    ) as process:
        process.release = lambda: subprocess.os.close(lock.descriptor)  # type: ignore[attr-defined]
        yield process
        process.kill()


def test_a_guard_starts_the_daemon_when_the_run_has_ended_and_not_before(
    guard: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        guard.wait(0.3)
    assert not (tmp_path / "started").exists()
    guard.release()  # type: ignore[attr-defined]
    assert guard.wait(60) == 0
    assert (tmp_path / "started").read_text() == "start slurmctld\n"
    next_run = Lock()
    take_lock(next_run, str(tmp_path / "lock"), "bob, fab deploy", print)
