"""Shell commands on a host, each in an SSH channel of its own: the checks' road, which has no agent on it."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from slurmfab.checks.exchange import Exchange
from slurmfab.errors import BecomeRefused, HostError, SudoPasswordNeeded, Unreachable

if TYPE_CHECKING:
    import paramiko

SECONDS = 30.0
"""How long a command may take, unless a check says otherwise."""

SESSIONS = 6
"""How many commands run on one host at a time: sshd allows ten per connection (sshd_config(5), MaxSessions), and counts
those that have ended for a moment longer than we do."""

LAST_WORDS_SECONDS = 30.0
"""How long a command that takes long may take to end once the user has had enough."""

PAUSE = 0.02
"""Seconds between two tries to open a session while sshd still counts ended ones."""

ENVIRONMENT = "env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What commands run in: English messages, and the folders of root's programs, which SSH leaves out for others."""

PROMPT = b"[slurmfab check: sudo password]"
READY = b"[slurmfab check: ready]"


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
        with self.slots, self._explained(command, seconds):
            return self._converse(command, stdin, seconds)

    def follow(self, command: str, heard: Callable[[str], None], seconds: float) -> int:
        """Run a command that takes long, hear each line of its output as it comes, and return its exit code.

        Its input stays open and empty: a command that reads it to the end knows when we are gone. On Ctrl-C the input
        ends, and there is some time for what the command does then.

        Args:
            command: for `sh -c`.
            heard: called with each line.
            seconds: how long it may take.

        Raises:
            Unreachable: the connection is lost.
            NoAnswer: it took too long.
            KeyboardInterrupt: the user has had enough, and the command has ended.
        """
        with self._explained(command, seconds):
            return self._follow(command, heard, time.monotonic() + seconds)

    def _follow(self, command: str, heard: Callable[[str], None], deadline: float) -> int:
        """Run the command, answer sudo if it asks, and read line by line."""
        channel = self._opened(deadline)
        try:
            exchange = Exchange(channel, deadline)
            channel.settimeout(exchange.remaining())
            channel.exec_command(self._wrapped(command))
            if self.become:
                self._become(exchange)
            try:
                exchange.read_lines(heard)
            except KeyboardInterrupt:
                channel.shutdown_write()
                exchange.deadline = time.monotonic() + LAST_WORDS_SECONDS
                exchange.read_lines(heard)
                raise
            return exchange.exit_code()
        finally:
            channel.close()

    @contextlib.contextmanager
    def _explained(self, command: str, seconds: float) -> Iterator[None]:
        """Turns what can go wrong with a command into an error for people."""
        try:
            yield
        except TimeoutError as error:
            raise NoAnswer(self.host, f"`{shortened(command)}` gave no answer within {seconds:.0f} s.") from error
        except (OSError, EOFError, _ssh_exception()) as error:
            words = str(error) or type(error).__name__
            raise Unreachable(self.host, f"the connection was lost ({words}). Is the host still up?") from error

    def _converse(self, command: str, stdin: str, seconds: float) -> Answer:
        """Run the command, answer sudo if it asks, and read to the end."""
        deadline = time.monotonic() + seconds
        channel = self._opened(deadline)
        try:
            exchange = Exchange(channel, deadline)
            channel.settimeout(seconds)
            channel.exec_command(self._wrapped(with_input(command, stdin.encode())))
            if self.become:
                self._become(exchange)
            channel.sendall(stdin.encode())
            exchange.read_to_the_end()
            return Answer(exchange.exit_code(), exchange.output, exchange.error)
        finally:
            channel.close()

    def _opened(self, deadline: float) -> paramiko.Channel:
        """A new session; tried again while sshd says that there are too many."""
        transport = self.connection.transport
        while True:
            try:
                opened: paramiko.Channel = transport.open_session(timeout=max(deadline - time.monotonic(), PAUSE))
                return opened
            except _ssh_exception():
                if not transport.is_active() or time.monotonic() + PAUSE > deadline:
                    raise
            time.sleep(PAUSE)

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
            elif not exchange.receive_error():
                words = exchange.error.decode(errors="replace").strip().splitlines()
                raise BecomeRefused(self.host, f"sudo refuses: {words[-1] if words else 'without a word'}.")
        exchange.error = exchange.error.partition(READY)[2]


def with_input(command: str, stdin: bytes) -> str:
    """A command that reads just these bytes, and needs no end of input behind them.

    Paramiko can send an end of input after its answer to the other side's end of the session, when a command ends at
    the same moment; sshd takes that as a protocol error and drops the connection.
    """
    return f"head -c {len(stdin)} | {{ {command}; }}" if stdin else f"exec </dev/null; {command}"


def shortened(command: str, length: int = 60) -> str:
    """A command for a message."""
    text = " ".join(command.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _ssh_exception() -> type[Exception]:
    """What paramiko raises of its own."""
    import paramiko  # noqa: PLC0415 - slow to import

    return paramiko.SSHException
