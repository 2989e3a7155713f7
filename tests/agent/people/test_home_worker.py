"""The child process that works in homes: deadlines, and nothing of the agent's in its hands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.people import home_files
from slurmfab.on_hosts.agent.people.home_worker import LEAST_PATIENCE_SECONDS, HomeTrouble, HomeWorker

ME = (os.getuid(), os.getgid())


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[HomeWorker]:
    """A worker, one of whose tasks never ends, as at a file server that is down."""
    monkeypatch.setitem(home_files.TASKS, "hang", lambda *_: time.sleep(3600))
    monkeypatch.setitem(home_files.TASKS, "files", open_files)
    monkeypatch.setitem(home_files.TASKS, "pid", lambda *_: os.getpid())
    monkeypatch.setitem(home_files.TASKS, "crash", lambda *_: 1 // 0)
    one = HomeWorker()
    yield one
    one.stop()


def open_files(*_: object) -> list[str]:
    """What the open file descriptors of this process are."""
    found = []
    for entry in sorted(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):
            found.append(str(entry.readlink()))
    return found


def test_a_home_that_does_not_answer_is_given_up_and_the_others_are_served(worker: HomeWorker, tmp_path: Path) -> None:
    worker.patience = 0.4
    for number in range(3):
        for _ in range(2):
            with pytest.raises(HomeTrouble, match=r"it does not answer; is its file server up\?"):
                worker.ask("hang", ME, f"/home/{number}")
    assert worker.patience == LEAST_PATIENCE_SECONDS
    worker.patience = 10.0
    assert worker.ask("owner", ME, str(tmp_path)) == os.getuid()


def test_all_homes_are_served_by_one_child(worker: HomeWorker, tmp_path: Path) -> None:
    assert len({worker.ask("pid", ME, str(tmp_path)) for _ in range(3)}) == 1


def test_a_child_that_hangs_keeps_nothing_of_the_agent_open(worker: HomeWorker, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w"):
        files = worker.ask("files", ME, str(tmp_path))
    others = {name for name in files if not name.startswith("pipe:")}
    assert {name for name in others if not name.startswith("/proc/")} == {"/dev/null"}
    assert len([name for name in files if name.startswith("pipe:")]) == 2


def test_a_mistake_in_a_task_is_trouble_with_that_home(worker: HomeWorker, tmp_path: Path) -> None:
    with pytest.raises(HomeTrouble, match="ZeroDivisionError"):
        worker.ask("crash", ME, str(tmp_path))
    assert worker.ask("owner", ME, str(tmp_path / "missing")) is None


@pytest.mark.needs_root("only root can act as another user")
def test_files_are_touched_as_the_user(worker: HomeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    def rights(account: home_files.Account, _: str) -> list[int]:
        with home_files.acting_as(*account):
            return [os.geteuid(), os.getegid(), *os.getgroups()]

    monkeypatch.setitem(home_files.TASKS, "rights", rights)
    assert [worker.ask("rights", account, "/") for account in ((4711, 4712), (4713, 4714), ME)] == [
        [4711, 4712], [4713, 4714], [0, 0]
    ]  # fmt: skip
