"""The two ways between agent and deployer, and how each of them notices that the other one is gone.

What comes in are frames: `<decimal byte count>`, a newline, that many bytes of JSON. An empty frame, `0` and a newline,
is the deployer's sign of life, for a network that is lost or a machine that is switched off ends no connection.
What goes out are JSON lines; while a request takes long, `{"alive": true}` comes every few seconds.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import Any, BinaryIO, Callable, Optional

HEARTBEAT = 5.0
"""Seconds between signs of life, in either direction."""

SILENCE = 60.0
"""Seconds without a word from the deployer after which it counts as gone: a laptop may be busy, or lose its wifi."""

PIECE = 65536
"""Bytes of a frame that are read at a time, so that a big one on a slow line is heard as it comes."""


class Gone(Exception):
    """The deployer does not listen any more, so nothing new is begun."""


class Answers:
    """The way back to the deployer: whole lines, from any thread.

    Args:
        stream: where the lines go.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.lock = threading.Lock()
        self.is_gone = False  # no Event: a signal handler sets it, and must not wait for a lock

    def send(self, **answer: Any) -> None:
        """Write one line; when nobody reads it any more, note that and go on."""
        line = json.dumps(answer, default=vars).encode("ascii") + b"\n"
        try:
            with self.lock:
                self.stream.write(line)
                self.stream.flush()
        except (OSError, ValueError):
            self.is_gone = True

    def check(self) -> None:
        """Raise `Gone` when the deployer is gone."""
        if self.is_gone:
            raise Gone


class Alive:
    """A context that says every few seconds that the agent still works.

    Args:
        answers: where to say it.
        seconds: how often.
    """

    def __init__(self, answers: Answers, seconds: float = HEARTBEAT) -> None:
        self.answers = answers
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self) -> None:
        """Say it until the context ends."""
        while not self.ended.wait(self.seconds):
            self.answers.send(alive=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *exception: object) -> None:
        self.ended.set()
        self.thread.join()


class Lifeline:
    """The deployer's frames as they come, until it is gone or has been silent for too long.

    Args:
        stdin: where frames come from.
        leave: called once or twice when there will be no more of them.
        silence: after how many seconds without a byte the deployer counts as gone.
    """

    def __init__(self, stdin: BinaryIO, leave: Callable[[], None], silence: float = SILENCE) -> None:
        self.stdin = stdin
        self.leave = leave
        self.silence = silence
        self.heard = time.monotonic()
        self.frames: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()

    def start(self) -> None:
        """Begin to listen."""
        for work in (self.listen, self.watch):
            threading.Thread(target=work, daemon=True).start()

    def listen(self) -> None:
        """Read frames into the queue until there are no more; empty ones are only heard."""
        try:
            while True:
                size = int(self.stdin.readline())
                self.heard = time.monotonic()
                if size:
                    self.frames.put(self.frame(size))
        except (OSError, ValueError):
            # An empty line is what readline() gives at the end, and text that is no number comes from no deployer.
            return
        finally:
            self.leave()

    def frame(self, size: int) -> bytes:
        """The next bytes, which are signs of life as well.

        Raises:
            OSError: the stream ends before.
        """
        frame = bytearray()
        while len(frame) < size:
            piece = self.stdin.read(min(PIECE, size - len(frame)))
            if not piece:
                raise OSError("the stream ends within a frame")
            self.heard = time.monotonic()
            frame += piece
        return bytes(frame)

    def watch(self) -> None:
        """Wait until the deployer has been silent for too long."""
        while True:
            left = self.heard + self.silence - time.monotonic()
            if left <= 0:
                break
            time.sleep(left)
        self.leave()
