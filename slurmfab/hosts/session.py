"""The protocol of the agent on one host: start, sudo password, framed requests, answers as JSON lines."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol

from slurmfab.base import answers
from slurmfab.base.errors import (
    AgentFailed,
    AnotherRun,
    BecomeRefused,
    ConnectionLost,
    HostError,
    PythonMissing,
    SudoPasswordNeeded,
    SudoPasswordWrong,
)
from slurmfab.hosts import login_shells, payload
from slurmfab.hosts.answer_bounds import AnswerBounds, Patience, parse, text_of
from slurmfab.hosts.login_shells import quoted
from slurmfab.hosts.sudo_password import NEEDED, WITHOUT_RIGHTS, WRONG, refusal
from slurmfab.on_hosts.agent.core.language import ENGLISH

GREETING = f"{payload.GREETING}\n".encode()
"""The first line of the boot code; output of a shell's start files before it is ignored."""

SUDO_PROMPT = "slurmfab asks sudo for a %password: "
"""sudo's question. Its option has `%%` for `%` (sudo(8), -p): a shell with `set -x` in a start file, which prints the
command, does not print the question, and gets no password."""
NOT_FOUND = ("not found", "No such file")
"""Parts of the messages of sudo and of shells about a program that is not installed."""

NOLOGIN = "This account is currently not available"  # what nologin(8) prints, in every language
NOT_FOUND_CODE = 127  # exit code of shells and of env(1) for such a program, in every language
ANOTHER_USER = re.compile(r'Please login as the user "([a-z_][a-z0-9_-]{0,31})" rather than the user "[\w-]+"')
"""What cloud-init's `disable_root`, as on Ubuntu, has sshd print in place of a command."""

EMPTY_FRAME = b"0\n"  # a heartbeat: the agent does not answer it

SILENCE_SECONDS = 30
"""After this time without any data a host counts as lost: the agent sends a heartbeat every 5 s, and a busy host sends
some of them late. `slurmfab.hosts.connection` notices a lost network sooner."""

Line = Mapping[str, Any]  # one JSON object of an agent's answer


def answer_value(host: str, lines: Iterable[Line], name: str) -> Any:
    """The named value, as its model wants it (`slurmfab.base.answers`), in an answer; AgentFailed if it is none."""
    for line in lines:
        if name in line:
            model = answers.values(name)
            return line[name] if model is None else answers.checked_object(host, model, line[name], name)
    raise AgentFailed(host, f"the agent's answer contains no {name!r}. This is a bug; please report it.")


def piece_of(host: str, line: Line) -> bytes:
    """The data in a line of an agent's answer that has the key `piece`. Raises AgentFailed if it is not base64."""
    try:
        return base64.b64decode(line["piece"], validate=True)
    except (TypeError, ValueError) as error:
        start = text_of(line["piece"])[:40]
        message = f"the agent sent data that is not base64: {start!r}. This is a bug; please report it."
        raise AgentFailed(host, message) from error


NO_PYTHON = "python3 is not installed. Install it: apt-get install --reinstall python3 python3-minimal."
"""The error of a host without python3; the option helps where only a file of the packages is gone."""


class Stream(Protocol):
    """The input and output of a running agent: an SSH channel, or a local process in tests."""

    def sendall(self, data: bytes) -> None:
        """Send all of it."""

    def recv(self, size: int) -> bytes:
        """Output and errors, empty at the end; TimeoutError after the limit, OSError if the connection is broken."""

    def exit_code(self) -> int | None:
        """The exit code of the command, whose output has ended; `None` if it is not known."""

    def close(self) -> None:
        """Close both directions; the agent ends when its input ends."""

    def has_room(self) -> bool:
        """Whether a few bytes can be sent without waiting for the host."""


_LANGUAGE = " ".join(f"{name}={value}" for name, value in ENGLISH.items())
SUDO_PROGRAM = "/usr/bin/sudo"  # not one of /usr/local, where users may be let in (staff), which would get the password
SUDO = f"/usr/bin/env {_LANGUAGE} {SUDO_PROGRAM} -S -p {quoted(SUDO_PROMPT.replace('%', '%%'))}"
"""How sudo is called: in another language PAM's prompt would take the place of ours (sudo(8), -p)."""


@cache
def command(*, become: bool) -> str:
    """The command that starts the agent; it is constant, so that no secret is in the process list.

    Its Python is the distribution's: sudo and shells look into /usr/local first, where users may be let in (staff).
    """
    python = f"/usr/bin/python3 {' '.join(payload.FLAGS)} -c {quoted(payload.BOOT)}"
    return f"exec {SUDO} -- {python}" if become else f"exec {python}"


class Session:
    """The agent on one host, from its greeting to its input's end; `clock` is like `time.monotonic`."""

    def __init__(self, host: str, stream: Stream, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self.stream = stream
        self.clock = clock
        self.buffer = bytearray()
        self.patience = Patience()
        self.bounds = AnswerBounds(host, {}, clock)
        self.noise: deque[str] = deque(maxlen=3)
        self.sending = threading.Lock()
        self.known: frozenset[str] = frozenset()
        self.used_password = False
        self.become = False
        self.has_greeted = False

    def start(self, *, become: bool, password: str = "", request: Mapping[str, Any] | None = None) -> None:
        """Send the agent's code to the host.

        Without sudo at once; with sudo after the greeting, as sudo would read it as a password. `request`: the first,
        whose modules are sent; `None` for all. Raises SudoPasswordNeeded, SudoPasswordWrong, BecomeRefused,
        PythonMissing, AgentFailed or ConnectionLost.
        """
        self.bounds = AnswerBounds(self.host, {}, self.clock)
        self.become = become
        self.known = payload.module_names() if request is None else payload.needed_modules(request)
        if not become:
            self.send_code()
        while GREETING not in self.buffer:
            if become and SUDO_PROMPT.encode() in self.buffer:
                self.buffer = self.buffer.replace(SUDO_PROMPT.encode(), b"", 1)
                if not password:
                    raise SudoPasswordNeeded(self.host, NEEDED)
                if self.used_password:
                    raise SudoPasswordWrong(self.host, WRONG)
                self.send(password.encode() + b"\n")
                self.used_password = True
            if not self.receive():
                raise self.refusal()
        _, _, self.buffer = self.buffer.partition(GREETING)
        self.has_greeted = True
        if become:
            self.send_code()

    def send_code(self) -> None:
        """Send the agent's first sources, with their length in front."""
        code = payload.payload(self.known)
        self.send(b"%d\n%s" % (len(code), code))

    def send(self, data: bytes) -> None:
        """Send data; an error is ignored, since the output that is read next tells why the agent ended."""
        with contextlib.suppress(OSError), self.sending:
            self.stream.sendall(data)

    def beat(self) -> None:
        """Send a heartbeat, unless data is on its way, or the host reads nothing: one thread serves all hosts."""
        if self.sending.acquire(blocking=False):
            try:
                if self.stream.has_room():
                    self.stream.sendall(EMPTY_FRAME)
            finally:
                self.sending.release()

    def ask(self, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None) -> tuple[Line, ...]:
        """Send a request and return the lines of its answer, but for those with the key `piece` (parts of large data).

        The SSH channel protects secrets. `heard`: gets all lines, also pieces and signs of life. Raises ConnectionLost,
        AnotherRun, or AgentFailed if the agent reports an error or exceeds `slurmfab.hosts.answer_bounds`.
        """
        body = json.dumps(request).encode("ascii")
        lacking = payload.needed_modules(request) - self.known
        self.send((payload.more(lacking) if lacking else b"") + b"%d\n%s" % (len(body), body))
        self.known = payload.together(self.known, lacking)
        self.bounds = AnswerBounds(self.host, request, self.clock, self.patience)
        answer: list[Line] = []
        failure: HostError | None = None
        for line, size in self.lines():
            # The answer is read to its end in any case: a line that is left would be taken for the next answer.
            if line.get("done"):
                if failure:
                    raise failure
                self.bounds = AnswerBounds(self.host, {}, self.clock)  # without the request, which may be large
                return tuple(answer)
            failure = failure or self.failure_in(line)
            if failure:
                continue
            self.bounds.take(line, size)
            if "alive" not in line:
                answer += [] if "piece" in line else [line]
            if "alive" not in line or "waiting" in line:
                heard(line)
        raise failure or self.lost("the agent ended in the middle of its answer")

    def failure_in(self, line: Line) -> HostError | None:
        """The error that a line of an answer reports; `None` if it reports none."""
        if "holder" in line:
            return AnotherRun(self.host, text_of(line["holder"]))
        return AgentFailed(self.host, f"{text_of(line['error'])}.") if "error" in line else None

    def lines(self) -> Iterator[tuple[Line, int]]:
        """Yield the JSON objects that arrive, each with its size; other lines are kept in `noise`, for errors."""
        searched = 0
        while True:
            end = self.buffer.find(b"\n", searched)
            if end < 0:
                searched = len(self.buffer)
                if not self.receive():
                    return
                continue
            searched = 0
            value = parse(self.host, self.buffer[:end])
            del self.buffer[: end + 1]
            if isinstance(value, dict):
                yield value, end
                continue
            self.bounds.pass_over(end + 1)
            if value:
                self.noise.append(text_of(value))

    def receive(self) -> bool:
        """Wait for more output; false at its end.

        Raises:
            ConnectionLost: no data arrived for SILENCE_SECONDS, not even a heartbeat.
            AgentFailed: there is more than a host may send, or it comes too late.
        """
        try:
            data = self.stream.recv(65536)
        except TimeoutError as error:
            raise self.silent() from error
        except OSError as error:
            raise self.lost(str(error)) from error
        self.buffer += data
        self.bounds.receive(len(data))
        return bool(data)

    def silent(self) -> HostError:
        """The error for a host that sends nothing any more, or whose login shell never ran the agent."""
        if self.has_greeted:
            return self.lost(f"no data for {SILENCE_SECONDS} s")
        return ConnectionLost(
            self.host,
            f"SSH login works, but its shell runs no command: no data for {SILENCE_SECONDS} s. Is the host "
            "overloaded, or does a start file of the login user, such as .bashrc, wait for something?",
        )

    def lost(self, why: str) -> ConnectionLost:
        """The error for a lost connection, with the last lines of output."""
        output = " | ".join(self.noise)
        return ConnectionLost(
            self.host,
            f"the connection was lost: {why}{': ' + output if output else ''}. "
            "Is the host still up? The next deploy continues where this one stopped.",
        )

    def refusal(self) -> HostError:
        """The error for a command that ended before the agent's greeting."""
        lines = self.buffer.decode(errors="replace").strip().splitlines()
        silence = (
            "the login shell ended without running it. It is one that runs nothing, such as /bin/false, or one of its "
            "start files, such as .bashrc, ends it"
        )
        last = lines[-1].rstrip(".") if lines else silence
        output = "\n".join(lines)
        if self.become and any(part in output for part in WITHOUT_RIGHTS):
            return refusal(self.host, output)
        is_absent = self.stream.exit_code() == NOT_FOUND_CODE
        names_absent = any(hint in output for hint in NOT_FOUND)
        if (is_absent and not self.become) or ("python3" in output and names_absent):
            return PythonMissing(self.host, NO_PYTHON)
        other = ANOTHER_USER.search(output)
        if other or NOLOGIN in output:
            name = other[1] if other else "..."
            why = (
                f'cloud-init asks for the user "{name}" there. Log in as that one'
                if other
                else f"this user has a login shell that runs no command ({last}), such as /usr/sbin/nologin. Give it "
                "another there (chsh -s /bin/bash USER), or log in as another user"
            )
            as_sudo = ", become: sudo" if other else ""
            option = f"--user {name}" if other else "--user"
            return AgentFailed(
                self.host, f"{why} ({option} at first contact, ssh: {{user: {name}{as_sudo}}} in the cluster file)."
            )
        if is_absent or ("sudo" in output and names_absent):
            return BecomeRefused(self.host, "sudo is not installed. Install it, or log in as root.")
        if "sudo" in output:
            return refusal(self.host, output)
        return AgentFailed(self.host, f"{login_shells.expired(last) or f'the agent did not start: {last}'}.")

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()
