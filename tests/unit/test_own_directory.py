"""Temporary directories of this program: for their user alone, and gone at the end, also of a run that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.base.own_directory import own_directory

PROGRAM = """
from slurmfab.base.own_directory import own_directory
with own_directory("backup") as place:
    (place / "secret").write_text("x")
    print(place, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_directory_then_is_its_users_alone_and_gone_at_the_end(place: Path) -> None:
    with own_directory("ssh") as own:
        (own / "more").mkdir()
        assert own.stat().st_mode & 0o777 == 0o700
        assert own.parent == place
    assert not own.exists()


def test_what_a_killed_run_left_then_goes_with_the_next_and_that_of_a_living_one_stays(place: Path) -> None:
    words = (sys.executable, "-c", PROGRAM)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdin
        left = Path(process.stdout.readline().strip())
        with own_directory("backup"):
            assert (left / "secret").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (left / "secret").exists()
    with own_directory("other"):
        assert (left / "secret").exists()
    with own_directory("backup"):
        assert not left.exists()
    assert list(place.iterdir()) == []


def test_a_link_or_a_file_in_such_a_place_then_is_not_followed(place: Path) -> None:
    kept = place / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (place / "slurmfab-ssh-link").symlink_to(kept)
    (place / "slurmfab-ssh-file").touch()
    with own_directory("ssh"):
        pass
    assert (kept / "file").exists()
    assert (place / "slurmfab-ssh-link").is_symlink()


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o770, 0o500])
def test_a_directory_of_this_user_that_was_moved_there_then_is_left(place: Path, mode: int) -> None:
    moved = place / "slurmfab-compiled-x"
    (moved / "private").mkdir(parents=True)
    moved.chmod(mode)
    with own_directory("compiled"):
        pass
    assert (moved / "private").exists()


@pytest.mark.needs_root("the group is one that this user is not in")
@pytest.mark.parametrize("mode", [0o777, 0o2775])
def test_a_place_for_temporary_files_where_others_may_exchange_names_then_is_refused(place: Path, mode: int) -> None:
    place.chmod(mode)
    if mode == 0o2775:
        os.chown(place, -1, 4711)
        place.chmod(mode)
    with pytest.raises(InputError, match=r"others may write to .*\. Set TMPDIR to one of yours"), own_directory("ssh"):
        pass
    place.chmod(0o1777)
    with own_directory("ssh") as own:
        assert own.parent == place


@pytest.mark.needs_root("another user's directory is made by root")
def test_a_directory_of_another_user_then_is_left(place: Path) -> None:
    (place / "slurmfab-ssh-other").mkdir()
    os.chown(place / "slurmfab-ssh-other", 4711, 4711)
    with own_directory("ssh"):
        pass
    assert (place / "slurmfab-ssh-other").exists()
