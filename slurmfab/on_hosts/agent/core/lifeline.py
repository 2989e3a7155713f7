"""The connection between agent and deployer, and how each of them notices that the other one has disconnected.

The input consists of frames: `<decimal byte count>`, a newline, that many bytes of JSON. An empty frame, `0` and a
newline, is the deployer's heartbeat, because a network failure or a power failure does not close the connection.
The output consists of JSON lines; during a long request the agent sends a sign of life every few seconds, which names
the operation or resource at work and its age: `{"alive": true, "at": "packages:munge,slurmd", "seconds": 25.0}`, and
where something is waited for, that as well: `"waiting": "for n1"`.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import Any, BinaryIO, Callable, Optional

HEARTBEAT = 5.0  # seconds between heartbeats, in either direction

SILENCE = 60.0
"""Seconds without data after which the deployer counts as disconnected; a laptop may be busy, or lose its wifi."""

READ_BYTES = 65536
"""Bytes of a frame that are read at once; each part of a large frame on a slow line counts as a heartbeat."""


class Disconnected(Exception):
    """The deployer has disconnected, so the agent starts nothing new."""


class Answers:
    """The output to the deployer: whole lines, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.lock = threading.Lock()
        self.work = "", time.monotonic()
        self.is_disconnected = False  # not an Event: a signal handler sets it and must not wait for a lock

    def send(self, **answer: Any) -> None:
        """Write one line; if the deployer has disconnected, note that and continue."""
        line = json.dumps(answer, default=vars).encode("ascii") + b"\n"
        try:
            with self.lock:
                self.stream.write(line)
                self.stream.flush()
        except (OSError, ValueError):
            self.is_disconnected = True

    def begin(self, work: str) -> None:
        """Note the operation or the resource that is at work from now on."""
        self.work = work, time.monotonic()

    def sign(self, **more: str) -> None:
        """Send a sign of life."""
        work, since = self.work
        self.send(alive=True, at=work, seconds=round(time.monotonic() - since, 1), **more)

    def tell(self, text: str) -> None:
        """Send a sign of life that tells what is waited for."""
        self.sign(waiting=text)

    def check(self) -> None:
        """Raise `Disconnected` if the deployer has disconnected."""
        if self.is_disconnected:
            raise Disconnected


class KeepAlive:
    """A context that sends heartbeats while a request is handled. `seconds`: time between heartbeats."""

    def __init__(self, answers: Answers, seconds: float = HEARTBEAT) -> None:
        self.answers = answers
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.send_heartbeats, daemon=True)

    def send_heartbeats(self) -> None:
        """Send heartbeats until the context ends."""
        while not self.ended.wait(self.seconds):
            self.answers.sign()

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *exception: object) -> None:
        self.ended.set()
        self.thread.join()


class Lifeline:
    """The deployer's frames, until it disconnects or is silent for too long; `leave` is called then."""

    def __init__(self, stdin: BinaryIO, leave: Callable[[], None], silence: float = SILENCE) -> None:
        self.stdin = stdin
        self.leave = leave
        self.silence = silence
        self.heard = time.monotonic()
        self.frames: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()

    def start(self) -> None:
        """Start to listen."""
        for work in (self.listen, self.watch):
            threading.Thread(target=work, daemon=True).start()

    def listen(self) -> None:
        """Put frames into the queue until the input ends; empty ones only count as heartbeats."""
        try:
            while True:
                size = int(self.stdin.readline())
                self.heard = time.monotonic()
                if size:
                    self.frames.put(self.frame(size))
        except (OSError, ValueError):
            # readline() returns nothing at the end of the input; a deployer sends no text that is not a number.
            return
        finally:
            self.leave()

    def frame(self, size: int) -> bytes:
        """The next `size` bytes of the input, each part of which is a heartbeat; OSError if it ends before."""
        frame = bytearray()
        while len(frame) < size:
            piece = self.stdin.read(min(READ_BYTES, size - len(frame)))
            if not piece:
                raise OSError("the stream ends within a frame")
            self.heard = time.monotonic()
            frame += piece
        return bytes(frame)

    def watch(self) -> None:
        """Wait until no data has come for too long."""
        while True:
            left = self.heard + self.silence - time.monotonic()
            if left <= 0:
                break
            time.sleep(left)
        self.leave()
