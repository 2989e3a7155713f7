"""Runs shell commands on a host, each in its own SSH channel; checks use this instead of the agent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from slurmfab.base.errors import (
    HostError,
    LoginRefused,
    SudoPasswordNeeded,
    SudoPasswordWrong,
    Unreachable,
)
from slurmfab.commands.checks.exchange import Exchange
from slurmfab.hosts.login_shells import announcement, in_sh, quoted
from slurmfab.hosts.sudo_password import NEEDED, WRONG, refusal
from slurmfab.on_hosts.agent.core.language import SITE_SETTINGS

if TYPE_CHECKING:
    import paramiko

SECONDS = 30.0
"""Default time limit of a command."""

SESSIONS = 6
"""How many commands run on one host at a time: sshd allows ten sessions per connection (sshd_config(5), MaxSessions),
and counts ended sessions for a moment longer."""

LAST_WORDS_SECONDS = 30.0
"""Seconds in which a command that `follow` runs must end after Ctrl-C."""

PAUSE = 0.02
"""Seconds between attempts to open a session while sshd still counts ended ones."""

LANGUAGE = "env LC_ALL=C LANGUAGE="
"""Prefix of every command: English messages; LANGUAGE alone would translate them, also sudo's prompt."""

ENVIRONMENT = f"{LANGUAGE} PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Prefix of every command that also has a PATH with root's programs, which other users get without sbin."""

FORGET = (
    'unset XDG_RUNTIME_DIR; for n in $(export -p | while IFS="= " read -r _ n _; do case "$n" in '
    f"{'|'.join(f'{beginning}*' for beginning in SITE_SETTINGS)}) "
    'case "$n" in *[!A-Z0-9_]*) ;; *) echo "$n" ;; esac ;; esac; done); do unset "$n"; done'
)
"""Removes what a host sets for every login and Slurm's commands would obey, such as SLURM_CONF in /etc/environment; and
the directory of root's session, which Podman in a user's job would take for its own."""

PROMPT = b"[slurmfab check: %sudo password]"
"""sudo's question. Its option has `%%` for `%` (sudo(8), -p): a shell with `set -x` that prints the command does not
print the question."""

READY = b"slurmfab check begins\n"
"""The mark before a command's own output, in both streams; what the login shell's start files print comes before it."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    code: int  # exit code; -1 if a signal ended the command
    output: bytes = b""
    error: bytes = b""


class NoAnswer(HostError):
    """A command exceeded its time limit; the connection still works."""


class Shell(Protocol):
    """A root shell on a host. Tests replace it by a function."""

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> CommandResult:
        """Run a command and return its result, whatever its exit code.

        Args:
            stdin: text for its standard input, which can be secret; never part of a message.

        Raises:
            Unreachable: the connection was lost.
            NoAnswer: the command exceeded its time limit.
        """


class SshShell:
    """A shell over an open Fabric connection.

    Args:
        become: whether commands run with sudo.
        password: the sudo password; empty if unknown. It is sent only through standard input, when sudo prompts for it.
    """

    def __init__(self, host: str, connection: Any, *, become: bool = False, password: str = "") -> None:
        self.host = host
        self.connection = connection
        self.become = become
        self.password = password
        self.used_password = False
        self.slots = threading.BoundedSemaphore(SESSIONS)

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> CommandResult:
        """Run a command and return its result, whatever its exit code.

        Args:
            stdin: text for its standard input, which can be secret; never part of a message.

        Raises:
            Unreachable: the connection was lost.
            NoAnswer: the command exceeded its time limit.
            SudoPasswordNeeded: sudo prompts for a password, and none is known.
            SudoPasswordWrong: sudo rejects the password.
            BecomeRefused: sudo refuses for another reason.
        """
        with self.slots, self._explained(command, seconds):
            return self._converse(command, stdin, seconds)

    def follow(self, command: str, heard: Callable[[str], None], seconds: float) -> int:
        """Run a long command, pass on each line of its output as it arrives, and return its exit code.

        Its standard input stays open and empty until the connection ends, so that the command can notice that. On
        Ctrl-C, its input is closed, and it has `LAST_WORDS_SECONDS` to end.

        Args:
            heard: called with each line.

        Raises:
            Unreachable: the connection was lost.
            NoAnswer: the command exceeded its time limit.
            KeyboardInterrupt: the user pressed Ctrl-C; the command has ended.
        """
        with self._explained(command, seconds):
            return self._follow(command, heard, time.monotonic() + seconds)

    def _follow(self, command: str, heard: Callable[[str], None], deadline: float) -> int:
        """Run the command, answer sudo's prompt, and read its output line by line."""
        channel = self._opened(deadline)
        try:
            exchange = Exchange(channel, deadline)
            channel.settimeout(exchange.remaining())
            channel.exec_command(self._wrapped(command))
            if self.become:
                self._become(exchange)
            lines = OwnLines(heard)
            try:
                exchange.read_lines(lines.hear)
            except KeyboardInterrupt:
                channel.shutdown_write()
                exchange.deadline = time.monotonic() + LAST_WORDS_SECONDS
                exchange.read_lines(lines.hear)
                raise
            return exchange.exit_code()
        finally:
            channel.close()

    @contextlib.contextmanager
    def _explained(self, command: str, seconds: float) -> Iterator[None]:
        """Turn a timeout or an SSH error of a command into a `HostError` with a message for users."""
        try:
            yield
        except TimeoutError as error:
            raise NoAnswer(self.host, f"`{shortened(command)}` gave no answer within {seconds:.0f} s.") from error
        except (OSError, EOFError, _ssh_exception()) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(self.host, f"the connection was lost ({reason}). Is the host still up?") from error

    def _converse(self, command: str, stdin: str, seconds: float) -> CommandResult:
        """Run the command, answer sudo's prompt, and read its output to the end."""
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
            return self._result(exchange)
        finally:
            channel.close()

    def _opened(self, deadline: float) -> paramiko.Channel:
        """Open a session; repeated while sshd refuses because there are too many."""
        transport = self.connection.transport
        while True:
            try:
                opened: paramiko.Channel = transport.open_session(timeout=max(deadline - time.monotonic(), PAUSE))
                return opened
            except _ssh_exception():
                if not transport.is_active() or time.monotonic() + PAUSE > deadline:
                    raise
            time.sleep(PAUSE)

    def _result(self, exchange: Exchange) -> CommandResult:
        """The result of a command that has ended, without what was printed before it.

        Raises:
            LoginRefused: the login shell ended without running the command.
        """
        code = exchange.exit_code()
        before, mark, output = exchange.output.partition(READY)
        if not mark:
            words = last_line(exchange.error) or last_line(before) or f"exit code {code}"
            raise LoginRefused(
                self.host,
                f"its login shell ends without running a command: {words}. See the login user's shell (getent passwd) "
                "and its start files, such as .bashrc.",
            )
        # With sudo, the error output has no mark any more.
        return CommandResult(code, output, exchange.error.rpartition(READY)[2])

    def _wrapped(self, command: str) -> str:
        """The command line for sshd; it contains no secret, because the host's process list shows it."""
        announced = in_sh(f"{FORGET}; {announcement(READY.decode().strip())}; {command}")
        if not self.become:
            return f"exec {ENVIRONMENT} {announced}"
        prompt = quoted(PROMPT.decode().replace("%", "%%"))
        return f"exec {LANGUAGE} sudo -S -p {prompt} -- {ENVIRONMENT} {announced}"

    def _become(self, exchange: Exchange) -> None:
        """Wait until the command runs as root; the password is sent only after sudo's prompt, never to the command.

        Raises:
            SudoPasswordNeeded: sudo prompts for a password, and none is known.
            SudoPasswordWrong: sudo rejects the password.
            BecomeRefused: sudo refuses for another reason.
        """
        answered = False
        while READY not in exchange.error:
            if PROMPT in exchange.error:
                if not self.password:
                    raise SudoPasswordNeeded(self.host, NEEDED)
                if answered:
                    raise SudoPasswordWrong(self.host, WRONG)
                exchange.error = exchange.error.replace(PROMPT, b"", 1)
                exchange.channel.sendall(self.password.encode() + b"\n")
                answered = True
            elif not exchange.receive_error():
                raise refusal(self.host, exchange.error.decode(errors="replace"))
        self.used_password |= answered
        exchange.error = exchange.error.partition(READY)[2]


class OwnLines:
    """Passes on the lines of a command's output, without those before its mark.

    Args:
        heard: called with each line.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.heard = heard
        self.has_begun = False

    def hear(self, line: str) -> None:
        """Take the next line of the output."""
        if self.has_begun:
            self.heard(line)
        self.has_begun |= line.endswith(READY.decode().strip())


def last_line(output: bytes) -> str:
    """The last line of an output that is not empty, without a full stop."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip().rstrip(".") if lines else ""


def with_input(command: str, stdin: bytes) -> str:
    """A command that reads exactly these bytes, so that the client need not send an end of input.

    If the command ends at the same moment, paramiko can send the end of input after it has confirmed the end of the
    session; sshd treats that as a protocol error and drops the connection.
    """
    return f"head -c {len(stdin)} | {{ {command}; }}" if stdin else f"exec </dev/null; {command}"


def shortened(command: str, length: int = 60) -> str:
    """A command on one line of at most `length` characters, for a message."""
    text = " ".join(command.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _ssh_exception() -> type[Exception]:
    """The base class of paramiko's own errors."""
    import paramiko  # slow to import

    return paramiko.SSHException
