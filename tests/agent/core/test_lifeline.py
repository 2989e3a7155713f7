"""The connection to the deployer: whole lines, and what counts as a sign of life."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from slurmfab.on_hosts.agent.core import lifeline
from slurmfab.on_hosts.agent.core.lifeline import Answers, Disconnected, Lifeline


class OneAtATime(io.RawIOBase):
    """An output that takes a while for each line, and notes how many write at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = self.most = 0
        self.lines: list[bytes] = []

    def write(self, data: Any) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        threading.Event().wait(0.02)
        self.lines.append(bytes(data))
        self.inside -= 1
        return len(data)


def test_lines_of_two_threads_are_never_mixed() -> None:
    output = OneAtATime()
    answers = Answers(cast("Any", output))
    threads = [threading.Thread(target=answers.send, kwargs={"outcome": number}) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert output.most == 1
    assert sorted(output.lines) == [b'{"outcome": %d}\n' % number for number in range(4)]


def test_an_output_that_is_gone_is_noted_and_the_work_goes_on_to_the_next_check() -> None:
    class Gone(io.RawIOBase):
        def write(self, _: Any) -> int:
            raise BrokenPipeError

    answers = Answers(cast("Any", Gone()))
    answers.check()
    answers.send(outcome=1)
    with pytest.raises(Disconnected):
        answers.check()


def test_each_piece_of_a_large_frame_on_a_slow_line_counts_as_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]

    class Slow(io.BytesIO):
        """An input of which each piece takes 50 s."""

        def read(self, size: int | None = -1) -> bytes:
            now[0] += 50
            return super().read(size)

    monkeypatch.setattr(lifeline.time, "monotonic", lambda: now[0])
    heard = Lifeline(Slow(b"x" * (3 * lifeline.READ_BYTES)), lambda: None)
    assert len(heard.frame(3 * lifeline.READ_BYTES)) == 3 * lifeline.READ_BYTES
    assert heard.heard == now[0] == 1150


def test_an_input_that_ends_within_a_frame_is_no_frame(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"10\nhalf")
    left: list[None] = []
    with (tmp_path / "input").open("rb") as file:
        heard = Lifeline(file, lambda: left.append(None))
        heard.listen()
    assert heard.frames.empty()
    assert left == [None]
