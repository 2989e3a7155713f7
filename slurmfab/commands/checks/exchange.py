"""Conversations with shells on hosts: one that runs commands one after another, and one with a long command."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

CHUNK = 65536
MOST_OUTPUT = 16 << 20  # the most bytes of output, or of errors, that wait for their mark or their line's end

LOOP = (
    "while IFS= read -r _mark && IFS= read -r _input && IFS= read -r _command; do "
    'printf %b "$_input" | (eval "$(printf %b "$_command")"); '
    r'printf "\n%s %s\n" "$_mark" "$?"; printf "\n%s\n" "$_mark" >&2; done'
)
"""Runs commands for sh in subshells. Each comes as three lines, see `Exchange.ask`; its mark follows its output in both
streams. A new channel, login and sudo for each command would take several times as long as most commands do."""


class Exchange:
    """The streams of a program that runs on a host.

    The class never waits on the channel's file descriptor: paramiko can close that pipe while its own thread writes to
    it, and the byte would go into another file or connection that got the same number in the meantime. `deadline`: time
    by `time.monotonic` at which reading stops.
    """

    def __init__(self, channel: paramiko.Channel, deadline: float) -> None:
        self.channel = channel
        self.deadline = deadline
        self.output = b""
        self.error = b""
        self.heard = threading.Condition()

    def ask(self, command: str, stdin: str) -> tuple[int, bytes, bytes]:
        """Have `LOOP` run a command, and return exit code, output and error output.

        `stdin`: text for its standard input. Raises TimeoutError if the deadline has passed. Raises EOFError if the
        shell has ended.
        """
        mark = secrets.token_hex(8)
        self.channel.settimeout(self.remaining())
        self.channel.sendall(f"{mark}\n{on_a_line(stdin)}\n{on_a_line(command)}\n".encode())
        output = self.read_until(f"\n{mark} ".encode())
        code = self.read_until(b"\n")
        return int(code), output, self.error_before(f"\n{mark}\n".encode())

    def read_until(self, mark: bytes) -> bytes:
        """Take the output before a mark; TimeoutError after the deadline, EOFError at the end."""
        searched = 0
        while (place := self.output.find(mark, searched)) < 0:
            searched = max(0, len(self.output) - len(mark))
            data = self.received(self.channel.recv)
            if not data:
                self.refuse_excess(self.error)
                raise EOFError("its shell has ended")
            self.output += data
            self.refuse_excess(self.output)
        before, self.output = self.output[:place], self.output[place + len(mark) :]
        return before

    def error_before(self, mark: bytes) -> bytes:
        """Wait for a mark in the error output, and return what was before it; TimeoutError after the deadline."""
        with self.heard:
            if not self.heard.wait_for(lambda: mark in self.error, self.remaining()):
                raise TimeoutError
            before, _, self.error = self.error.partition(mark)
        return before

    def read_errors_beside(self) -> threading.Thread:
        """Read the error output in a thread of its own, so that a full stream cannot block a command."""
        beside = threading.Thread(target=self.read_errors, name="stderr", daemon=True)
        beside.start()
        return beside

    def read_errors(self) -> None:
        """Read the error output to its end."""
        while True:
            try:
                data = self.channel.recv_stderr(CHUNK)
            except TimeoutError:  # that of the last command, which whoever waits for the output notices
                continue
            if not data:
                return
            with self.heard:
                self.error += data
                self.heard.notify_all()
            if len(self.error) > MOST_OUTPUT:
                self.channel.close()  # which whoever waits for the output notices
                return

    def read_lines(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with each complete line of the output as it arrives; TimeoutError after the deadline."""
        while True:
            *lines, self.output = self.output.split(b"\n")
            for line in lines:
                heard(line.decode(errors="replace"))
            data = self.received(self.channel.recv)
            if not data:
                return
            self.output += data
            self.refuse_excess(self.output)

    def receive_error(self) -> bool:
        """Wait for more error output; returns false at its end. Raises TimeoutError if the deadline has passed."""
        data = self.received(self.channel.recv_stderr)
        self.error += data
        self.refuse_excess(self.error)
        return bool(data)

    def refuse_excess(self, waiting: bytes) -> None:
        """Raise OSError if a host sends data without end."""
        if len(waiting) > MOST_OUTPUT:
            raise OSError(f"it sent more than {MOST_OUTPUT >> 20} MiB in answer to one command")

    def received(self, receive: Callable[[int], bytes]) -> bytes:
        """The next bytes of a stream, by `recv` or `recv_stderr`; empty at its end, TimeoutError after the deadline."""
        self.channel.settimeout(self.remaining())
        return receive(CHUNK)

    def exit_code(self) -> int:
        """The program's exit code; waits for it. Raises TimeoutError if the deadline has passed."""
        if not self.channel.status_event.wait(self.remaining()):
            raise TimeoutError
        return int(self.channel.exit_status)

    def remaining(self) -> float:
        """Seconds until the deadline. Raises TimeoutError if the deadline has passed."""
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


def on_a_line(text: str) -> str:
    r"""A text on one line, from which `printf %b` makes it again.

    >>> on_a_line("a\\b\nc")
    'a\\\\b\\nc'
    """
    return text.replace("\\", "\\\\").replace("\n", "\\n")
