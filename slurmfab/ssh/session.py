"""A conversation with the agent on one host: the boot, sudo's question, framed requests, JSON lines in answer."""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from slurmfab.errors import (
    AgentFailed,
    AnotherRun,
    BecomeRefused,
    ConnectionLost,
    HostError,
    PythonMissing,
    SudoPasswordNeeded,
)
from slurmfab.ssh import modules, payload

GREETING = f"{payload.GREETING}\n".encode()
"""What the boot code says first; whatever a shell's start files print before it is passed over."""

SUDO_PROMPT = "slurmfab asks sudo for a password: "
NO_PYTHON = ("not found", "No such file")

SIGN_OF_LIFE = b"0\n"
"""An empty frame: the agent answers nothing, and knows that the deployer is there."""

Line = Mapping[str, Any]


class Stream(Protocol):
    """The two directions of a running agent: an SSH channel, or a local process in tests."""

    def sendall(self, data: bytes) -> None:
        """Send all of it."""

    def recv(self, size: int) -> bytes:
        """At least one byte of output, standard output and error together; empty at the end.

        Raises:
            TimeoutError: nothing came for long.
            OSError: the connection is broken.
        """

    def close(self) -> None:
        """End the conversation; the agent goes when its input ends."""


def command(*, become: bool) -> str:
    """The one command that a host is asked to run; constant, so that nothing secret shows in its process list."""
    python = f"python3 {' '.join(payload.FLAGS)} -c {shlex.quote(payload.BOOT)}"
    return f"exec sudo -S -p {shlex.quote(SUDO_PROMPT)} -- {python}" if become else f"exec {python}"


class Session:
    """The agent on one host, from its greeting to the end of its input.

    Args:
        host: its name, for messages.
        stream: both directions of the running command.
    """

    def __init__(self, host: str, stream: Stream) -> None:
        self.host = host
        self.stream = stream
        self.buffer = b""
        self.noise: list[str] = []
        self.sending = threading.Lock()
        self.known: frozenset[str] = frozenset()

    def start(self, *, become: bool, password: str = "", request: Mapping[str, Any] | None = None) -> None:
        """Bring the agent's code to the host.

        Without sudo the code is sent at once; with it, after the agent's greeting, lest sudo read it as passwords.

        Args:
            become: whether sudo comes first.
            password: for sudo, empty where none is known.
            request: the first one, for which code is brought; all of the code where it is not known.

        Raises:
            SudoPasswordNeeded: sudo asks, and no password is known.
            BecomeRefused: sudo refuses.
            PythonMissing: there is no python3.
            AgentFailed: it did not start.
        """
        self.known = modules.names() if request is None else modules.needed(request)
        if not become:
            self.send_code()
        answered = False
        while GREETING not in self.buffer:
            if become and SUDO_PROMPT.encode() in self.buffer:
                self.buffer = self.buffer.replace(SUDO_PROMPT.encode(), b"", 1)
                if not password:
                    raise SudoPasswordNeeded(self.host, "sudo asks for a password; give it with --ask-sudo-password.")
                if answered:
                    raise BecomeRefused(self.host, "sudo does not accept the password.")
                self.send(password.encode() + b"\n")
                answered = True
            if not self.receive():
                raise self.refusal()
        _, _, self.buffer = self.buffer.partition(GREETING)
        if become:
            self.send_code()

    def send_code(self) -> None:
        """Send the agent's first sources, with their length in front."""
        code = payload.payload(self.known)
        self.send(b"%d\n%s" % (len(code), code))

    def send(self, data: bytes) -> None:
        """Send all of it; when nobody is there to take it, what came before the end tells why, and is read next."""
        with contextlib.suppress(OSError), self.sending:
            self.stream.sendall(data)

    def beat(self) -> None:
        """Give a sign of life, unless something is being sent at this moment, which is one as well."""
        if self.sending.acquire(blocking=False):
            try:
                self.stream.sendall(SIGN_OF_LIFE)
            finally:
                self.sending.release()

    def ask(self, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None) -> tuple[Line, ...]:
        """Send a request and return all lines of its answer, but for pieces of what may be large, which are only heard.

        Args:
            request: JSON values; secrets in it travel inside the SSH channel.
            heard: called with each line as it comes.

        Raises:
            ConnectionLost: the host went away or fell silent.
            AnotherRun: another run has the host's lock.
            AgentFailed: the agent reports that it could not go on.
        """
        body = json.dumps(request).encode("ascii")
        lacking = modules.needed(request) - self.known
        self.send((payload.more(lacking) if lacking else b"") + b"%d\n%s" % (len(body), body))
        self.known |= lacking
        answer: list[Line] = []
        for line in self.lines():
            if line.get("done"):
                return tuple(answer)
            if "holder" in line:
                raise AnotherRun(self.host, line["holder"])
            if "error" in line:
                raise AgentFailed(self.host, f"{line['error']}.")
            if "alive" not in line:
                answer += [] if "piece" in line else [line]
                heard(line)
        raise self.lost("the agent ended before its answer did")

    def lines(self) -> Iterator[Line]:
        """The JSON lines that come in; anything else is kept as noise, to explain a failure with."""
        while True:
            line, newline, rest = self.buffer.partition(b"\n")
            if newline:
                self.buffer = rest
                try:
                    words = json.loads(line)
                except ValueError:
                    words = line.decode(errors="replace").strip()
                if isinstance(words, dict):
                    yield words
                elif words:
                    self.noise.append(str(words))
            elif not self.receive():
                return

    def receive(self) -> bool:
        """Wait for more output; false at its end.

        Raises:
            ConnectionLost: nothing came, not even a sign of life.
        """
        try:
            data = self.stream.recv(65536)
        except TimeoutError as error:
            raise self.lost("it has fallen silent") from error
        except OSError as error:
            raise self.lost(str(error)) from error
        self.buffer += data
        return bool(data)

    def lost(self, why: str) -> ConnectionLost:
        """A host that is gone, with its last words."""
        words = " | ".join(self.noise[-3:])
        return ConnectionLost(
            self.host,
            f"the connection was lost: {why}{': ' + words if words else ''}. "
            "Is the host still up? The next deploy goes on where this one stopped.",
        )

    def refusal(self) -> HostError:
        """Why the command ended before the agent could greet, in words."""
        words = self.buffer.decode(errors="replace").strip().splitlines()
        last = words[-1].rstrip(".") if words else "no message"
        said = "\n".join(words)
        if "python3" in said and any(hint in said for hint in NO_PYTHON):
            return PythonMissing(self.host, "there is no python3. Install it: apt-get install python3.")
        if "sudo" in said and any(hint in said for hint in NO_PYTHON):
            return BecomeRefused(self.host, "there is no sudo. Install it, or log in as root.")
        if "sudo" in said or "sudoers" in said:
            return BecomeRefused(self.host, f"sudo refuses: {last}.")
        return AgentFailed(self.host, f"the agent did not start: {last}.")

    def close(self) -> None:
        """End the conversation."""
        self.stream.close()
