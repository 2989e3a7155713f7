"""Runs shell commands on a host in few logins by SSH; checks use this instead of the agent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slurmfab.base.errors import HostError, LoginRefused, SudoPasswordNeeded, SudoPasswordWrong, Unreachable
from slurmfab.commands.checks.exchange import LOOP, Exchange
from slurmfab.hosts.login_shells import FILES, announcement, expired, in_sh, quoted, reset
from slurmfab.hosts.session import SUDO_PROGRAM
from slurmfab.hosts.sudo_password import NEEDED, WRONG, refusal
from slurmfab.on_hosts.agent.core.language import SITE_SETTINGS

if TYPE_CHECKING:
    import paramiko

SECONDS = 30.0  # default time limit of a command

SESSIONS = 6
"""How many commands run on one host at a time: sshd allows ten sessions per connection (sshd_config(5), MaxSessions),
and counts ended sessions for a moment longer."""

QUICK_SECONDS = 5.0  # what is quicker costs no patience
PATIENCE_SECONDS = 120.0
"""How long a host may let commands wait beyond that, in sum, of those with the default time limit: a host that answers
each in the last moment would hold up the checks of all others. Commands at the same time count once."""

LAST_WORDS_SECONDS = 30.0  # seconds in which a command that `follow` runs must end after Ctrl-C
PAUSE = 0.02  # seconds between attempts to open a session while sshd still counts ended ones

LANGUAGE = "/usr/bin/env LC_ALL=C LANGUAGE="
"""Prefix of every command: English messages; LANGUAGE alone would translate them, also sudo's prompt."""

ENVIRONMENT = f"{LANGUAGE} PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""Prefix of every command that also has a PATH with root's programs, which other users get without sbin. What is in
/usr/local is in no other program's place: on some hosts, users may write there."""

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


class TooSlow(Unreachable):
    """A host has used up `PATIENCE_SECONDS`, and is asked nothing more."""


class Shell(Protocol):
    """A root shell on a host. Tests replace it by a function."""

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> CommandResult:
        """Run a command, whatever its exit code; secret `stdin` is in no message. Unreachable or NoAnswer if lost."""


class SshShell:
    """A shell over an open connection.

    Args:
        become: whether commands run with sudo.
        password: the sudo password; empty if unknown. It is sent only through standard input, when sudo prompts for it.
        patience: seconds, see `PATIENCE_SECONDS`.
    """

    def __init__(
        self,
        host: str,
        connection: paramiko.SSHClient,
        *,
        become: bool = False,
        password: str = "",
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.host = host
        self.connection = connection
        self.become = become
        self.password = password
        self.used_password = False
        self.patience = patience
        self.has_answered = False
        self.slow, self.counted = 0.0, 0.0  # seconds that cost patience, and the time until which they are counted
        self.counting = threading.Lock()
        self.slots = threading.BoundedSemaphore(SESSIONS)
        self.idle: list[Exchange] = []

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> CommandResult:
        """Run a command, whatever its exit code; `stdin` can be secret, and is in no message.

        Raises Unreachable if the connection was lost, or TooSlow; NoAnswer if the command exceeded its time limit;
        errors of sudo.
        """
        with self.slots, self._patient(seconds), self._explained(command, seconds):
            deadline = time.monotonic() + seconds
            session = self._idle_session() or self._login(LOOP, deadline)
            try:
                session.deadline = deadline
                answer = CommandResult(*session.ask(command, stdin))
            except BaseException:
                session.channel.close()
                raise
            self.idle.append(session)
            self.has_answered = True
            return answer

    def follow(self, command: str, heard: Callable[[str], None], seconds: float) -> int:
        """Run a long command, pass each line of its output to `heard` as it arrives, and return its exit code.

        Its standard input stays open and empty until the connection ends, so that the command can notice that. On
        Ctrl-C, its input is closed, and it has `LAST_WORDS_SECONDS` to end. Raises Unreachable, or NoAnswer after the
        time limit.
        """
        with self._explained(command, seconds):
            return self._follow(command, heard, time.monotonic() + seconds)

    def _follow(self, command: str, heard: Callable[[str], None], deadline: float) -> int:
        """Run the command and read its output line by line."""
        session = self._login(command, deadline)
        try:
            try:
                session.read_lines(heard)
            except KeyboardInterrupt:
                session.channel.shutdown_write()
                session.deadline = time.monotonic() + LAST_WORDS_SECONDS
                session.read_lines(heard)
                raise
            return session.exit_code()
        finally:
            session.channel.close()

    @contextlib.contextmanager
    def _patient(self, seconds: float) -> Iterator[None]:
        """Count how long a command with this time limit takes; TooSlow if there is no patience left for another."""
        if self.slow > self.patience:
            raise TooSlow(
                self.host,
                f"it is too slow: it let commands that should take moments wait for {self.slow:.0f} s in sum (the "
                f"limit is {self.patience:.0f} s), and is not asked any more. See what hangs there: ps axfo "
                "pid,stat,etime,args.",
            )
        begun = time.monotonic()
        try:
            yield
        finally:
            if seconds <= SECONDS:
                with self.counting:
                    now = time.monotonic()
                    self.slow += max(0.0, now - max(begun + QUICK_SECONDS, self.counted))
                    self.counted = now

    @contextlib.contextmanager
    def _explained(self, command: str, seconds: float) -> Iterator[None]:
        """Turn a timeout or an SSH error of a command into a `HostError` with a message for users."""
        try:
            yield
        except TimeoutError as error:
            raise NoAnswer(self.host, f"`{shortened(command)}` gave no answer within {seconds:.0f} s.") from error
        except (OSError, EOFError, _ssh_exception()) as error:
            from slurmfab.hosts.connection import excess  # paramiko is slow to import

            reason = excess(self.connection) or str(error).rstrip(".") or type(error).__name__
            more = reset(error) if not self.has_answered else ""
            raise Unreachable(
                self.host, f"the connection was lost ({reason}). {more or 'Is the host still up?'}"
            ) from error

    def _idle_session(self) -> Exchange | None:
        """A shell that an earlier command has used; it is the caller's from now on."""
        with contextlib.suppress(IndexError):
            return self.idle.pop()
        return None

    def _login(self, command: str, deadline: float) -> Exchange:
        """The conversation with a command, without what came before; LoginRefused if the shell ended first."""
        channel = self._opened(deadline)
        session = Exchange(channel, deadline)
        try:
            channel.settimeout(session.remaining())
            channel.exec_command(self._wrapped(command))
            if self.become:
                self._become(session)
            beside = session.read_errors_beside()
            try:
                session.read_until(READY)
            except EOFError:
                beside.join(session.remaining())
                raise self._refused(session) from None
            if not self.become:
                session.error_before(READY)
        except BaseException:
            channel.close()
            raise
        return session

    def _opened(self, deadline: float) -> paramiko.Channel:
        """Open a session; repeated while sshd refuses because there are too many."""
        from slurmfab.hosts.connection import transport_of  # paramiko is slow to import

        transport = transport_of(self.connection)
        while True:
            try:
                opened: paramiko.Channel = transport.open_session(timeout=max(deadline - time.monotonic(), PAUSE))
                return opened
            except _ssh_exception():
                if session := self._idle_session():
                    session.channel.close()
                if not transport.is_active() or time.monotonic() + PAUSE > deadline:
                    raise
            time.sleep(PAUSE)

    def _refused(self, session: Exchange) -> LoginRefused:
        """The error for a login shell that ended without running a command."""
        code = session.exit_code()
        words = last_line(session.error) or last_line(session.output) or f"exit code {code}"
        why = expired(words)
        told = f"its login shell ends without running a command: {words}. {FILES}"
        return LoginRefused(self.host, f"{why or told}.")

    def _wrapped(self, command: str) -> str:
        """The command line for sshd; it contains no secret, because the host's process list shows it."""
        announced = in_sh(f"{FORGET}; {announcement(READY.decode().strip())}; {command}")
        if not self.become:
            return f"exec {ENVIRONMENT} {announced}"
        prompt = quoted(PROMPT.decode().replace("%", "%%"))
        return f"exec {LANGUAGE} {SUDO_PROGRAM} -S -p {prompt} -- {ENVIRONMENT} {announced}"

    def _become(self, exchange: Exchange) -> None:
        """Wait until the command runs as root; the password is sent only after sudo's prompt, never to the command.

        Raises SudoPasswordNeeded if sudo prompts for a password, and none is known. Raises SudoPasswordWrong if sudo
        rejects the password. Raises BecomeRefused if sudo refuses for another reason.
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


def last_line(output: bytes) -> str:
    """The last line of an output that is not empty, without a full stop."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip().rstrip(".") if lines else ""


def shortened(command: str, length: int = 60) -> str:
    """A command on one line of at most `length` characters, for a message."""
    text = " ".join(command.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _ssh_exception() -> type[Exception]:
    """The base class of paramiko's own errors."""
    import paramiko  # slow to import

    return paramiko.SSHException
