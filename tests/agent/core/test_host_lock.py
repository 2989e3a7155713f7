"""The lock of a host: who has it, who had it, and when that one ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core import lock_taking
from slurmfab.on_hosts.agent.core.host_lock import INTERRUPTED, Lock, LockHeld
from slurmfab.on_hosts.agent.core.lock_taking import take_lock


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run/slurmfab.lock")


@pytest.fixture
def lock(path: str) -> Iterator[Lock]:
    """A lock that a session took an hour ago."""
    lock = Lock()
    take(lock, path, "ann, fab deploy")
    hour_ago = Path(path).stat().st_mtime - 3600
    os.utime(path, (hour_ago, hour_ago))
    yield lock
    end(lock)


def take(lock: Lock, path: str, who: str) -> list[str]:
    """Take the lock; what is told meanwhile."""
    told: list[str] = []
    take_lock(lock, path, who, told.append)
    return told


def end(lock: Lock) -> None:
    """End the session's process, as far as the kernel's lock is concerned."""
    if lock.descriptor is not None:
        os.close(lock.descriptor)
        lock.descriptor = None


def test_a_session_that_ends_marks_the_time_of_its_end_and_not_of_its_begin(path: str, lock: Lock) -> None:
    lock.note_release()
    end(lock)
    following = Lock()
    take(following, path, "bob")
    idle = following.idle()
    end(following)
    assert idle is not None
    assert 0 <= idle < 3000


def test_the_first_session_since_the_boot_has_no_predecessor(path: str) -> None:
    first = Lock()
    take(first, path, "ann")
    assert first.idle() is None
    end(first)


def test_a_lock_when_taken_names_its_session_alone(path: str, lock: Lock) -> None:
    end(lock)
    following = Lock()
    take(following, path, "bob")
    assert Path(path).read_text() == "bob"
    end(following)


def test_a_session_takes_its_lock_once(path: str, lock: Lock) -> None:
    take(lock, path, "ann, again")
    assert Path(path).read_text() == "ann, fab deploy"


def test_a_lock_when_its_sessions_deployer_is_gone_says_so_once(
    path: str, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_taking, "PATIENCE", 0.0)
    lock.note_interruption()
    lock.note_interruption()
    with pytest.raises(LockHeld) as held:
        take(Lock(), path, "bob")
    assert str(held.value) == "ann, fab deploy" + INTERRUPTED


def test_a_session_that_was_interrupted_when_its_last_step_ends_then_the_next_one_has_waited_for_it(
    path: str, lock: Lock
) -> None:
    lock.note_interruption()
    told, following = [], Lock()

    def last_step_ends(text: str) -> None:
        told.append(text)
        end(lock)

    take_lock(following, path, "bob", last_step_ends)
    assert told == ["waiting up to 20 s for the last step of an interrupted run"]
    assert Path(path).read_text() == "bob"
    end(following)


@pytest.mark.usefixtures("lock")
def test_a_session_that_goes_on_then_is_not_waited_for(path: str) -> None:
    told: list[str] = []
    with pytest.raises(LockHeld, match=r"^ann, fab deploy$"):
        take_lock(Lock(), path, "bob", told.append)
    assert told == []


def test_a_session_without_a_lock_marks_nothing(path: str) -> None:
    lock = Lock()
    lock.note_interruption()
    lock.note_release()
    assert not Path(path).exists()


def test_a_lock_is_not_taken_behind_a_link(path: str, tmp_path: Path) -> None:
    Path(path).parent.mkdir()
    Path(path).symlink_to(tmp_path / "theirs")
    (tmp_path / "theirs").write_text("keep")
    with pytest.raises(OSError, match="symbolic links"):
        take(Lock(), path, "ann")
    assert (tmp_path / "theirs").read_text() == "keep"
