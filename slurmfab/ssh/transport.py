"""Asking hosts: the agent behind one SSH channel per host and run, many hosts at once."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from slurmfab.errors import AgentFailed, ConnectionLost, HostError, PythonMissing, SlurmfabError, SudoPasswordNeeded
from slurmfab.ssh.pulse import Pulse
from slurmfab.ssh.session import Line, Session, command

if TYPE_CHECKING:
    import paramiko

    from slurmfab.ssh.host_keys import PinnedKey
    from slurmfab.ssh.route import Route

SILENCE_SECONDS = 30
"""After how long without a sign of life a host counts as lost: the agent gives one every 5 s, a busy host some of them
late. A network that is gone is noticed sooner, see `slurmfab.ssh.connection`."""

PROXIES = 8
"""How many connections by proxy commands are made at a time. As a rule each logs in to the same jump host, whose sshd
turns some away by chance once ten logins are under way (sshd_config(5), MaxStartups)."""

PYTHON_SECONDS = 600
"""How long the installation of python3 may take in all."""

INSTALL_PYTHON = (
    "export DEBIAN_FRONTEND=noninteractive; command -v apt-get >/dev/null || exit 69; "
    # An empty line now and then is a sign of life.
    "(while sleep 5 >/dev/null 2>&1 && echo; do :; done) & trap 'kill $!' EXIT; "
    "apt-get -qq install --no-install-recommends --yes python3 >/dev/null 2>&1 || "
    "{ apt-get -qq update && apt-get -qq install --no-install-recommends --yes python3; } 2>&1"
)
NO_APT = 69


class Transport(Protocol):
    """The way to ask hosts: requests in, answers out. Tests put a function or a local process in its place."""

    def call(self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = ...) -> tuple[Line, ...]:
        """The lines that a host's agent answers to a request.

        Raises:
            HostError: the host could not be asked, with the reason.
        """

    def install_python(self, host: str) -> None:
        """Install python3 on a host by its package manager.

        Raises:
            HostError: it cannot be done there.
        """

    def close(self) -> None:
        """End all conversations."""


class SshStream:
    """The two directions of a command behind an SSH channel; an end that came with the connection's is no answer.

    Args:
        channel: the channel that it runs on.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel
        self.sendall = channel.sendall
        self.close = channel.close

    def recv(self, size: int) -> bytes:
        """At least one byte; empty at the end of the command.

        Raises:
            TimeoutError: nothing came for long.
            OSError: the connection is gone.
        """
        data: bytes = self.channel.recv(size)
        if not data and not self.channel.get_transport().is_active():
            raise OSError("the host is gone, or the network to it")
        return data


class SshTransport:
    """Hosts behind SSH: one connection and one running agent for each, opened when first needed.

    Args:
        routes: the way to each host, by name.
        policies: what holds the pinned key of each host.
        ask_password: asks the user for the sudo password, at most once; `None` where nobody can be asked.
        password: the sudo password, where it is known already.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        policies: Mapping[str, PinnedKey],
        ask_password: Callable[[], str] | None = None,
        password: str = "",
    ) -> None:
        self.routes = dict(routes)
        self.policies = dict(policies)
        self.ask_password = ask_password
        self.password = password
        self.asking = threading.Lock()
        self.opening = threading.Lock()
        self.proxies = threading.BoundedSemaphore(PROXIES)
        self.gateways: dict[Route, Any] = {}
        self.closed: dict[Route, HostError] = {}
        self.connections: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self.execs: dict[str, int] = {}
        self.pulse = Pulse(lambda: tuple(self.sessions.values()))

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        """The lines that a host's agent answers; opens the connection and starts the agent where need be."""
        session = self.sessions.get(host) or self.start(host, request)
        try:
            return session.ask(request, heard)
        except (AgentFailed, ConnectionLost):
            self.forget(host)
            raise

    def start(self, host: str, request: Mapping[str, Any]) -> Session:
        """Start the agent on a host, asking for the sudo password if sudo does."""
        become = self.routes[host].become
        try:
            return self.greet(host, become, request)
        except SudoPasswordNeeded:
            with self.asking:
                if not self.password and self.ask_password:
                    self.password = self.ask_password()
                    self.ask_password = None
            if not self.password:
                raise
            return self.greet(host, become, request)

    def greet(self, host: str, become: bool, request: Mapping[str, Any]) -> Session:
        """Run the agent's command on a host and bring the code over that its first request needs."""
        session = Session(host, SshStream(self.execute(host, command(become=become))))
        try:
            session.start(become=become, password=self.password, request=request)
        except SlurmfabError:
            session.close()
            raise
        self.sessions[host] = session
        self.pulse.start()
        return session

    def connection(self, host: str) -> Any:
        """The open Fabric connection to a host, through its jump host's one connection where it has one."""
        from slurmfab.ssh.connection import connect  # noqa: PLC0415 - paramiko is slow to import

        if host not in self.connections:
            route = self.routes[host]
            gateway = self.gateway(route.gateway) if route.gateway else None
            with self.proxies if route.proxy_command else contextlib.nullcontext():
                self.connections[host] = connect(route, self.policies[host], gateway)
        return self.connections[host]

    def gateway(self, route: Route) -> Any:
        """The open connection to a jump host, shared by all hosts behind it; one that fails is not tried again.

        Raises:
            Unreachable: no connection, now or when it was tried first.
        """
        from slurmfab.ssh.connection import connect, explained_gateway, gateway_policy  # noqa: PLC0415 - paramiko is slow

        with self.opening:
            if route in self.closed:
                raise self.closed[route]
            if route not in self.gateways:
                try:
                    before = connect(route.gateway, gateway_policy(route.gateway)) if route.gateway else None
                    self.gateways[route] = connect(route, gateway_policy(route), before)
                except HostError as error:
                    self.closed[route] = explained_gateway(error)
                    raise self.closed[route] from error
            return self.gateways[route]

    def execute(self, host: str, command_line: str) -> paramiko.Channel:
        """A running command on a host, with its error output in its output.

        A raw channel, since Fabric's `run` feeds standard input at some 90 bytes a second (invoke issue 774).

        Raises:
            Unreachable: no connection.
            AgentFailed: a connection, and yet no command may be run, or the connection broke.
        """
        connection = self.connection(host)
        import paramiko  # noqa: PLC0415 - slow to import, and here by now

        try:
            channel: paramiko.Channel = connection.transport.open_session(timeout=SILENCE_SECONDS)
            channel.settimeout(SILENCE_SECONDS)
            channel.set_combine_stderr(True)
            channel.exec_command(command_line)
        except (paramiko.SSHException, EOFError, OSError) as error:
            why = str(error) or type(error).__name__
            raise AgentFailed(host, f"SSH lets us in but runs no command: {why}. See its sshd's log.") from error
        self.execs[host] = self.execs.get(host, 0) + 1
        return channel

    def install_python(self, host: str) -> None:
        """Install python3 by apt; with the sudo password on standard input where sudo asks for it."""
        sudo = "sudo -S -p '' " if self.routes[host].become else ""
        channel = self.execute(host, f"{sudo}sh -c {shlex.quote(INSTALL_PYTHON)}")
        deadline = time.monotonic() + PYTHON_SECONDS
        words: list[bytes] = []
        try:
            if sudo and self.password:
                channel.sendall(self.password.encode() + b"\n")
            while piece := channel.recv(65536):
                words.append(piece)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"apt-get has not ended after {PYTHON_SECONDS} s")
            code = channel.recv_exit_status()
        except OSError as error:
            why = str(error) or f"no word from it for {SILENCE_SECONDS} s"
            raise ConnectionLost(
                host, f"python3 is missing, and while it was installed the connection was lost: {why}."
            ) from error
        finally:
            channel.close()
        output = b"".join(words).decode(errors="replace").strip()
        if code == NO_APT:
            raise PythonMissing(host, "there is neither python3 nor apt-get; slurmfab deploys to Debian and Ubuntu.")
        if code != 0:
            raise PythonMissing(
                host, f"python3 is missing and cannot be installed: {output.splitlines()[-1:] or code}."
            )

    def forget(self, host: str) -> None:
        """Drop a host's agent and connection; the next call starts anew."""
        with contextlib.suppress(Exception):
            self.sessions.pop(host).close()
        with contextlib.suppress(Exception):
            self.connections.pop(host).close()

    def close(self) -> None:
        """End all conversations; the agents go when their input ends."""
        self.pulse.end()
        for host in tuple(self.connections):
            self.forget(host)
        for connection in self.gateways.values():
            connection.close()
