"""The agent in a local python3, for tests: the same code and protocol as over SSH."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from slurmfab.hosts.payload import BOOT_WITHOUT_TRACE, FLAGS
from slurmfab.hosts.session import SILENCE_SECONDS, Line, Session
from slurmfab.hosts.transport import Ends


class LocalTransport:
    """A transport to agents in local processes.

    Args:
        root: the directory that the agent takes for `/`.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.sessions: dict[str, Session] = {}

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        """Send a request to the local agent, and return the lines of its answer."""
        if host not in self.sessions:
            self.sessions[host] = Session(host, LocalProcess())
            self.sessions[host].start(become=False, request=request)
        return self.sessions[host].ask({**request, "root": self.root}, heard)

    def host_key(self, host: str) -> tuple[str, str] | None:  # noqa: ARG002
        """No SSH, so no key."""
        return None

    def ends(self, host: str) -> Ends:  # noqa: ARG002
        """No SSH, so no addresses."""
        return Ends()

    def log_in_again(self, host: str) -> None:
        """Do nothing: there are no logins."""

    def install_python(self, host: str) -> None:
        """Do nothing: this program runs in python3."""

    def close(self) -> None:
        """End the local agents."""
        for session in self.sessions.values():
            session.close()


class LocalProcess:
    """The standard input and output of a local agent."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *FLAGS, "-c", BOOT_WITHOUT_TRACE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def recv(self, size: int) -> bytes:
        """Return at least one byte of output; empty at the end."""
        assert self.process.stdout is not None
        return self.process.stdout.read(size) or b""

    def exit_code(self) -> int | None:
        """The exit code, once it has ended."""
        return self.process.wait(timeout=SILENCE_SECONDS)

    def close(self) -> None:
        """Close its input and wait until it ends."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=SILENCE_SECONDS)
        self.process.stdout.close()
