"""Reads the output and error output of a remote command as they arrive, until a deadline."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

CHUNK = 65536


class Exchange:
    """The output of a running command.

    The class never waits on the channel's file descriptor: paramiko can close that pipe while its own thread writes to
    it, and the byte would go into another file or connection that got the same number in the meantime.

    Args:
        deadline: time by `time.monotonic` at which reading stops.
    """

    def __init__(self, channel: paramiko.Channel, deadline: float) -> None:
        self.channel = channel
        self.deadline = deadline
        self.output = b""
        self.error = b""

    def read_to_the_end(self) -> None:
        """Read both streams in parallel, so that a full stream cannot block the command.

        Raises:
            TimeoutError: the deadline has passed.
        """
        beside = threading.Thread(target=self.read_errors, name="stderr", daemon=True)
        beside.start()
        while data := self.received(self.channel.recv):
            self.output += data
        beside.join(self.remaining())

    def read_lines(self, heard: Callable[[str], None]) -> None:
        """Read both streams to the end, and call `heard` with each complete line of the output as it arrives.

        Raises:
            TimeoutError: the deadline has passed.
        """
        threading.Thread(target=self.read_errors, name="stderr", daemon=True).start()
        while data := self.received(self.channel.recv):
            *lines, self.output = (self.output + data).split(b"\n")
            for line in lines:
                heard(line.decode(errors="replace"))

    def read_errors(self) -> None:
        """Read the error output to its end or the deadline; the reader of the output raises the `TimeoutError`."""
        with contextlib.suppress(TimeoutError):
            while self.receive_error():
                pass

    def receive_error(self) -> bool:
        """Wait for more error output; returns false at its end.

        Raises:
            TimeoutError: the deadline has passed.
        """
        data = self.received(self.channel.recv_stderr)
        self.error += data
        return bool(data)

    def received(self, receive: Callable[[int], bytes]) -> bytes:
        """The next bytes of a stream; empty at its end.

        Args:
            receive: `recv` or `recv_stderr` of the channel.

        Raises:
            TimeoutError: the deadline has passed.
        """
        self.channel.settimeout(self.remaining())
        return receive(CHUNK)

    def exit_code(self) -> int:
        """The command's exit code; waits for it.

        Raises:
            TimeoutError: the deadline has passed.
        """
        if not self.channel.status_event.wait(self.remaining()):
            raise TimeoutError
        return int(self.channel.exit_status)

    def remaining(self) -> float:
        """Seconds until the deadline.

        Raises:
            TimeoutError: the deadline has passed.
        """
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds
