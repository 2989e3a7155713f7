"""Shell commands on a host, each in an SSH channel of its own: the checks' road, which has no agent on it."""

from __future__ import annotations

import select
import shlex
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from slurmfab.errors import BecomeRefused, HostError, SudoPasswordNeeded, Unreachable

if TYPE_CHECKING:
    import paramiko

SECONDS = 30.0
"""How long a command may take, unless a check says otherwise."""

SESSIONS = 8
"""How many commands run on one host at a time: sshd allows ten per connection (sshd_config(5), MaxSessions)."""

ENVIRONMENT = "env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What commands run in: English messages, and the folders of root's programs, which SSH leaves out for others."""

PROMPT = b"[slurmfab check: sudo password]"
READY = b"[slurmfab check: ready]"
CHUNK = 65536


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code (-1 when a signal ended it), its output, its error output."""

    code: int
    output: bytes = b""
    error: bytes = b""


class NoAnswer(HostError):
    """A command that took too long on a host that is there."""


class Shell(Protocol):
    """A host's shell, as root. Tests put a function's answers in its place."""

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> Answer:
        """What a command says.

        Args:
            command: for `sh -c`.
            stdin: what it reads; never part of any message.
            seconds: how long it may take.

        Raises:
            Unreachable: the connection is lost.
            NoAnswer: it took too long.
        """


class SshShell:
    """A host's shell behind an open Fabric connection.

    Args:
        host: the host's name, for messages.
        connection: the open connection.
        become: whether root is reached by sudo.
        password: sudo's, if it is known; it goes through standard input when sudo asks, and nowhere else.
    """

    def __init__(self, host: str, connection: Any, *, become: bool = False, password: str = "") -> None:
        self.host = host
        self.connection = connection
        self.become = become
        self.password = password
        self.slots = threading.BoundedSemaphore(SESSIONS)

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> Answer:
        """What a command says; see `Shell`.

        Raises:
            SudoPasswordNeeded: sudo asks, and no password is known.
            BecomeRefused: sudo refuses.
        """
        with self.slots:
            try:
                return self._converse(command, stdin, seconds)
            except TimeoutError as error:
                raise NoAnswer(self.host, f"`{shortened(command)}` gave no answer within {seconds:.0f} s.") from error
            except (OSError, EOFError, _ssh_exception()) as error:
                words = str(error) or type(error).__name__
                raise Unreachable(self.host, f"the connection was lost ({words}). Is the host still up?") from error

    def _converse(self, command: str, stdin: str, seconds: float) -> Answer:
        """Run the command, answer sudo if it asks, and read to the end."""
        channel = self.connection.transport.open_session(timeout=seconds)
        try:
            channel.settimeout(seconds)
            exchange = Exchange(channel, time.monotonic() + seconds)
            channel.exec_command(self._wrapped(command))
            if self.become:
                self._become(exchange)
            channel.sendall(stdin.encode())
            channel.shutdown_write()
            while exchange.receive():
                pass
            return Answer(exchange.exit_code(), bytes(exchange.output), bytes(exchange.error))
        finally:
            channel.close()

    def _wrapped(self, command: str) -> str:
        """The command line for sshd; it holds no secret, since it shows in the host's process list."""
        if not self.become:
            return f"exec {ENVIRONMENT} sh -c {shlex.quote(command)}"
        announced = f"printf %s {shlex.quote(READY.decode())} >&2; {command}"
        return f"exec sudo -S -p {shlex.quote(PROMPT.decode())} -- {ENVIRONMENT} sh -c {shlex.quote(announced)}"

    def _become(self, exchange: Exchange) -> None:
        """Wait until the command runs as root; only a sudo that asks is given the password, never the command.

        Raises:
            SudoPasswordNeeded, BecomeRefused: it does not get there.
        """
        answered = False
        while READY not in exchange.error:
            if PROMPT in exchange.error:
                if not self.password:
                    raise SudoPasswordNeeded(self.host, "sudo asks for a password; give it with --ask-sudo-password.")
                if answered:
                    raise BecomeRefused(self.host, "sudo does not accept the password.")
                exchange.error = exchange.error.replace(PROMPT, b"", 1)
                exchange.channel.sendall(self.password.encode() + b"\n")
                answered = True
            elif not exchange.receive():
                words = exchange.error.decode(errors="replace").strip().splitlines()
                raise BecomeRefused(self.host, f"sudo refuses: {words[-1] if words else 'without a word'}.")
        exchange.error = exchange.error.partition(READY)[2]


class Exchange:
    """The output of a running command, both streams read as they come, so that neither can fill up and block it.

    Args:
        channel: of the command.
        deadline: by `time.monotonic`, for all of it.
    """

    def __init__(self, channel: paramiko.Channel, deadline: float) -> None:
        self.channel = channel
        self.deadline = deadline
        self.output = b""
        self.error = b""
        self.poller = select.poll()
        self.poller.register(channel.fileno(), select.POLLIN)

    def receive(self) -> bool:
        """Wait for more of either stream; false at the end of both.

        Raises:
            TimeoutError: the deadline has passed.
        """
        while True:
            # Asked before the buffers are: whatever came in front of the end is in them by then.
            has_ended = self.channel.eof_received or self.channel.closed
            if self.channel.recv_ready():
                self.output += self.channel.recv(CHUNK)
                return True
            if self.channel.recv_stderr_ready():
                self.error += self.channel.recv_stderr(CHUNK)
                return True
            if has_ended:
                return False
            self.poller.poll(1000 * self.remaining())

    def exit_code(self) -> int:
        """The command's exit code.

        Raises:
            TimeoutError: the deadline has passed.
        """
        if not self.channel.status_event.wait(self.remaining()):
            raise TimeoutError
        return int(self.channel.exit_status)

    def remaining(self) -> float:
        """Seconds until the deadline.

        Raises:
            TimeoutError: there are none.
        """
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


def shortened(command: str, length: int = 60) -> str:
    """A command for a message."""
    text = " ".join(command.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _ssh_exception() -> type[Exception]:
    """What paramiko raises of its own."""
    import paramiko  # noqa: PLC0415 - slow to import

    return paramiko.SSHException
