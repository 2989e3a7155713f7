"""Transport of requests to hosts: one SSH channel to one agent per host and run, kept alive by heartbeats."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from slurmfab.base.errors import AgentFailed, ConnectionLost, HostError, PythonMissing, SlurmfabError, Unreachable
from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family
from slurmfab.hosts.fan_out import overdue
from slurmfab.hosts.hidden_input import hidden_input
from slurmfab.hosts.login_shells import in_sh, reset
from slurmfab.hosts.relays import END_SECONDS, Relays, tell_on_standard_error
from slurmfab.hosts.session import SILENCE_SECONDS, SUDO_PROGRAM, Line, Session, command
from slurmfab.hosts.sudo_password import SudoPassword
from slurmfab.on_hosts.agent.core.lifeline import HEARTBEAT
from slurmfab.on_hosts.agent.main import MODULE_OF, STAGED, STREAMED

if TYPE_CHECKING:
    import paramiko

    from slurmfab.hosts.host_keys import PinnedKey
    from slurmfab.hosts.route import Route


class Beating(Protocol):
    """Something that can send a heartbeat: a session."""

    def beat(self) -> None:
        """Send a heartbeat without waiting."""


class Heartbeat:
    """One thread that sends heartbeats in a run's sessions every so many seconds, also while others work."""

    def __init__(self, hearts: Callable[[], Iterable[Beating]], seconds: float = HEARTBEAT) -> None:
        self.hearts = hearts
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="heartbeat")
        self.starting = threading.Lock()

    def start(self) -> None:
        """Start the thread, if it does not run yet."""
        with self.starting:
            if self.thread.ident is None and not self.ended.is_set():
                self.thread.start()

    def beat(self) -> None:
        """Send heartbeats until `end`; errors are ignored, since the next request to that host reports them."""
        while not self.ended.wait(self.seconds):
            for heart in self.hearts():
                with contextlib.suppress(Exception):
                    heart.beat()

    def end(self) -> None:
        """Send no more heartbeats."""
        self.ended.set()


PROXIES = 8
"""The most connections by proxy commands that are opened at the same time. Usually all log in to the same jump host,
whose sshd refuses some at random when ten logins are in progress (sshd_config(5), MaxStartups)."""

OTHER_FILES = 256  # files that this program may have open beside its connections
SEND_SECONDS = 600  # time limit for sending one request; a host that reads nothing is noticed after SILENCE_SECONDS
SEND_BYTES = 65536  # bytes that are handed to paramiko at once, which copies what it is given
HEARTBEAT_BYTES = 64  # a window of at least so many bytes has room for a heartbeat
OUTPUT_BYTES = 65536  # bytes of apt-get's output that are kept, for its last line
EXIT_SECONDS = 5.0  # how long after the end of a command's output its exit code may come
PYTHON_SECONDS = 600  # time limit for the installation of python3

INSTALL_PYTHON = (
    "export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C.UTF-8 LANGUAGE= "
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin; "
    "command -v apt-get >/dev/null || exit 69; "
    # An empty line every 5 s serves as a heartbeat.
    "(while sleep 5 >/dev/null 2>&1 && echo; do :; done) & trap 'kill $!' EXIT; "
    "get() { apt-get -qq install --no-install-recommends --yes \"$@\"; }; runs() { python3 -I -S -c '' 2>/dev/null; }; "
    # dpkg takes the packages for installed if only their files are gone, and apt-get may refuse if one of them is.
    "again() { get --reinstall python3 python3-minimal $(dpkg-query -W -f '${Package} ' 'python3.*-minimal'); }; "
    "install() { get python3; runs || again; runs; }; "
    "install >/dev/null 2>&1 || { apt-get -qq update && install; } 2>&1"
)
NO_APT = 69


class Ends(NamedTuple):
    """The IP addresses at the ends of a connection to a host, as far as they are known."""

    reached: str = ""  # the one at which the host was reached, from here or from a jump host; empty if unknown
    way: tuple[str, ...] = ()  # of this machine, and of jump hosts


class Transport(Protocol):
    """Sends requests to hosts and returns their answers. Tests use a function or a local process instead of SSH."""

    def call(self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = ...) -> tuple[Line, ...]:
        """Ask a host's agent (see `slurmfab.on_hosts.agent.main`), `heard` getting lines; HostError if it fails."""

    def install_python(self, host: str) -> None:
        """Install python3 on a host by its package manager. Raises HostError if the installation failed."""

    def log_in_again(self, host: str) -> None:
        """Log in anew, as for the first request, and run a command; HostError if that does not work."""

    def host_key(self, host: str) -> tuple[str, str] | None:
        """The public SSH host key that a host showed: its type, and itself in base64; `None` for none yet."""

    def ends(self, host: str) -> Ends:
        """The IP addresses at the ends of the open connection to a host."""

    def close(self) -> None:
        """Close all connections."""


def closed_after(seconds: float, channel: paramiko.Channel) -> contextlib.AbstractContextManager[None]:
    """Closes a channel if the block takes longer: paramiko waits for some answers of a server without an end."""
    return overdue(seconds, channel.close)


class SshStream:
    """Input and output of a command on an SSH channel; the end of the connection is an error, not the end of output."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel
        self.close = channel.close

    def sendall(self, data: bytes) -> None:
        """Send all of it; TimeoutError if the host does not take it in time, OSError if the connection breaks."""
        deadline, rest = time.monotonic() + SEND_SECONDS, memoryview(data)
        while rest:
            rest = rest[self.send_some(rest[:SEND_BYTES].tobytes()) :]
            if rest and time.monotonic() > deadline:
                raise TimeoutError(f"the host did not take a request within {SEND_SECONDS} s")

    def send_some(self, data: bytes) -> int:
        """Send what the host takes now; returns the number of bytes, OSError if the connection is broken."""
        import paramiko  # slow to import, and here by now

        try:
            return int(self.channel.send(data))
        except (paramiko.SSHException, EOFError) as error:
            raise OSError(str(error)) from error

    def has_room(self) -> bool:
        """Whether a few bytes can be sent now: the host has opened the window, and no new SSH keys are negotiated."""
        transport = self.channel.get_transport()
        return self.channel.out_window_size > HEARTBEAT_BYTES and transport.clear_to_send.is_set()

    def exit_code(self) -> int | None:
        """The exit code of the command, whose output has ended; `None` if the host does not tell it soon."""
        return self.channel.recv_exit_status() if self.channel.status_event.wait(EXIT_SECONDS) else None

    def recv(self, size: int) -> bytes:
        """Return bytes, none at the end of the command; TimeoutError after the limit, OSError if broken."""
        data: bytes = self.channel.recv(size)
        if not data and not self.channel.get_transport().is_active():
            from slurmfab.hosts.connection import excess  # paramiko is slow to import, and here by now

            raise OSError(excess(self.channel) or "the host or the network to it is down")
        return data


def allow_connections(count: int) -> None:
    """Let this program have so many connections open at once, as far as its hard limit of open files allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES if hard == resource.RLIM_INFINITY else min(count + OTHER_FILES, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def only_reads(request: Mapping[str, Any]) -> bool:
    """Whether a request changes nothing on its host and takes no lock there, so that it may be sent again."""
    operation = request["op"]
    if operation in (*STREAMED, *STAGED) or request.get("fetch"):
        return False
    return operation == "facts" or operation in MODULE_OF or (operation == "apply" and request["dry_run"])


def ends_of(route: Route, connection: paramiko.SSHClient | None) -> Ends:
    """The IP addresses at the ends of an open connection, if any, without those of jump hosts."""
    named = canonical(route.address) if family(route.address) != NO_ADDRESS else ""
    sock = None if connection is None else getattr(connection.get_transport(), "sock", None)
    if not isinstance(sock, socket.socket):
        return Ends(named)
    try:
        return Ends(canonical(str(sock.getpeername()[0])), (canonical(str(sock.getsockname()[0])),))
    except OSError:
        return Ends(named)


class SshTransport:
    """Transport over SSH: one connection and one running agent per host, opened when first needed.

    `routes`: by host. `policies`: by host, and of relays that are none of these hosts. `ask_password`: `None` without a
    terminal. `tell`: gets lines about relays.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        policies: Mapping[str, PinnedKey],
        ask_password: Callable[[], str] | None = None,
        password: str = "",
        tell: Callable[[str], None] = tell_on_standard_error,
    ) -> None:
        self.routes = dict(routes)
        self.policies = dict(policies)
        self.sudo = SudoPassword(ask_password, password)
        self.opening = threading.Lock()
        self.proxies = threading.BoundedSemaphore(PROXIES)
        self.gateways: dict[Route, paramiko.SSHClient] = {}
        self.closed: dict[Route, HostError] = {}
        self.connections: dict[str, paramiko.SSHClient] = {}
        self.relays = Relays(self.connection, tell)
        self.relays.add(self.routes)
        self.changing: set[str] = set()
        allow_connections(len(self.routes))
        self.sessions: dict[str, Session] = {}
        self.execs: dict[str, int] = {}
        self.heartbeat = Heartbeat(lambda: tuple(self.sessions.values()))

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        """Send a request and return the lines of the answer; opens the connection and starts the agent if needed.

        If the connection of a relay ends, the host is asked again by another way, unless this may have changed it, or
        its agent holds the lock of the run.
        """
        may_ask_again = host not in self.changing
        if may_ask_again and self.relays.has_lost(host):
            self.forget(host)
        if not only_reads(request):
            self.changing.add(host)
        try:
            return self.ask(host, request, heard)
        except (AgentFailed, ConnectionLost) as error:
            if not self.relays.has_lost(host, END_SECONDS):
                raise
            if not (may_ask_again and only_reads(request)):
                relay = self.relays.through[host][0].host
                raise ConnectionLost(host, f"{error.reason} The connection of its relay {relay} ended.") from error
        self.forget(host)
        return self.ask(host, request, heard)

    def ask(self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None]) -> tuple[Line, ...]:
        """Send a request over the way to a host that there is, or over a new one."""
        session = self.sessions.get(host) or self.start(host, request)
        try:
            return session.ask(request, heard)
        except (AgentFailed, ConnectionLost):
            self.forget(host)
            raise

    def start(self, host: str, request: Mapping[str, Any]) -> Session:
        """Start the agent on a host, and ask for the sudo password if sudo wants it."""

        def attempt(password: str) -> tuple[Session, bool]:
            session = self.greet(host, request, password)
            return session, session.used_password

        return self.sudo.log_in(attempt)

    def greet(self, host: str, request: Mapping[str, Any], password: str) -> Session:
        """Start a host's agent with the first request's modules; HostError as `Session.start`, or Unreachable."""
        from slurmfab.hosts.connection import look_seldom  # paramiko is slow to import

        become = self.routes[host].become
        session = Session(host, SshStream(self.execute(host, command(become=become))))
        try:
            session.start(become=become, password=password, request=request)
        except SlurmfabError:
            session.close()
            raise
        self.sessions[host] = session
        self.heartbeat.start()
        look_seldom(self.connections[host])
        return session

    def connection(self, host: str) -> paramiko.SSHClient:
        """The open connection to a host, through the connection of its jump host or relay if it has one."""
        with self.relays.lock(host):
            if host not in self.connections or (host in self.relays.routes and not self.leads_on(host)):
                self.connections[host] = self.connected(host)
            return self.connections[host]

    def leads_on(self, relay: str) -> bool:
        """Whether the connection to a relay still stands, on which those to the hosts behind it depend."""
        from slurmfab.hosts.connection import is_open  # paramiko is slow to import

        return relay in self.connections and is_open(self.connections[relay])

    def connected(self, host: str) -> paramiko.SSHClient:
        """A new connection to a host, through the connection of its jump host or relay if it has one."""
        from slurmfab.hosts.connection import connect, gateway_policy  # paramiko is slow to import

        route = self.routes.get(host) or self.relays.routes[host]
        policy = self.policies.get(host) or gateway_policy(route)
        self.relays.through.pop(host, None)
        through, why = self.relays.connect(route, policy)
        if through is not None:
            return through
        try:
            gateway = self.gateway(route.gateway) if route.gateway else None
            with self.proxies if route.proxy_command else contextlib.nullcontext():
                return connect(route, policy, gateway)
        except Unreachable as error:
            if why and type(error) is Unreachable:
                raise Unreachable(error.host, f"{error.reason} Neither did a relay lead there. {why}") from error
            raise

    def log_in_again(self, host: str) -> None:
        """Log in over a connection of its own, and run a command there; sshd's PAM session begins with the command."""
        from slurmfab.hosts.connection import transport_of  # paramiko is slow to import

        connection = self.connected(host)
        try:
            channel: paramiko.Channel = transport_of(connection).open_session(timeout=SILENCE_SECONDS)
            with closed_after(SILENCE_SECONDS, channel):
                channel.exec_command("exit 0")
                code = channel.recv_exit_status()
        except Exception as error:  # as in `execute`
            raise AgentFailed(host, f"no command ran after the login: {error or type(error).__name__}.") from error
        finally:
            with contextlib.suppress(Exception):
                connection.close()
        if code != 0:
            raise AgentFailed(host, f"a command that only ends did so with exit code {code}.")

    def gateway(self, route: Route) -> paramiko.SSHClient:
        """The open connection to a jump host, shared by all hosts behind it; a failed one is not tried again.

        Raises Unreachable if no connection, now or at the first attempt.
        """
        from slurmfab.hosts.connection import connect, explained_gateway, gateway_policy, is_open  # paramiko is slow

        with self.opening:
            if route in self.closed:
                raise self.closed[route]
            if route not in self.gateways or not is_open(self.gateways[route]):
                try:
                    before = connect(route.gateway, gateway_policy(route.gateway)) if route.gateway else None
                    self.gateways[route] = connect(route, gateway_policy(route), before)
                except HostError as error:
                    self.closed[route] = explained_gateway(error)
                    raise self.closed[route] from error
            return self.gateways[route]

    def execute(self, host: str, command_line: str) -> paramiko.Channel:
        """Start a command on a host, with its standard error in its output.

        Raises:
            Unreachable: no connection.
            AgentFailed: sshd does not start the command, or the connection broke.
        """
        from slurmfab.hosts.connection import transport_of  # paramiko is slow to import

        connection = self.connection(host)
        try:
            channel: paramiko.Channel = transport_of(connection).open_session(timeout=SILENCE_SECONDS)
            channel.settimeout(SILENCE_SECONDS)
            channel.set_combine_stderr(True)
            with closed_after(SILENCE_SECONDS, channel):
                channel.exec_command(command_line)
        except Exception as error:  # whatever a server's data made of paramiko's thread is raised here
            why = str(error).rstrip(".") or type(error).__name__
            raise AgentFailed(
                host,
                f"SSH login succeeded, but the server refused to start a command: {why}. "
                f"{reset(why) or 'See the log of sshd there'}.",
            ) from error
        self.execs[host] = self.execs.get(host, 0) + 1
        return channel

    def install_python(self, host: str) -> None:
        """Install python3 with apt-get; sudo reads the password from standard input if it asks."""
        sudo = f"{SUDO_PROGRAM} -S -p '' " if self.routes[host].become else ""
        channel = self.execute(host, f"{sudo}{in_sh(INSTALL_PYTHON)}")
        deadline = time.monotonic() + PYTHON_SECONDS
        received = b""
        try:
            if sudo and self.sudo.known:
                channel.sendall(self.sudo.known.encode() + b"\n")
            while piece := channel.recv(65536):
                received = (received + piece)[-OUTPUT_BYTES:]
                if time.monotonic() > deadline:
                    raise TimeoutError(f"apt-get did not finish within {PYTHON_SECONDS} s")
            with closed_after(max(1.0, deadline - time.monotonic()), channel):
                code = channel.recv_exit_status()
        except OSError as error:
            why = str(error) or f"no data for {SILENCE_SECONDS} s"
            raise ConnectionLost(
                host, f"python3 is missing, and the connection was lost while apt-get installed it: {why}."
            ) from error
        finally:
            channel.close()
        output = received.decode(errors="replace").strip()
        if code == NO_APT:
            raise PythonMissing(host, "it has neither python3 nor apt-get to install it (docs/supported.md).")
        if code != 0:
            why = output.splitlines()[-1] if output else f"exit code {code}"
            raise PythonMissing(host, f"python3 is missing and cannot be installed: {why}.")

    def host_key(self, host: str) -> tuple[str, str] | None:
        """The public SSH host key that a host showed: its type, and itself in base64; `None` for none yet."""
        return self.policies[host].shown

    def ends(self, host: str) -> Ends:
        """The IP addresses at the ends of the open connection to a host; behind others, its own is the route's."""
        route = self.routes[host]
        reached, way = ends_of(route, self.connections.get(host))
        relay = self.relays.through.get(host)
        gateway = relay[0] if relay else route.gateway
        while gateway is not None:
            jump = ends_of(gateway, relay[1] if relay and gateway is relay[0] else self.gateways.get(gateway))
            way = (*way, *jump.way, *((jump.reached,) if jump.reached else ()))
            gateway = gateway.gateway
        return Ends(reached, tuple(dict.fromkeys(way)))

    def forget(self, host: str) -> None:
        """Close a host's agent and connection; the next call opens new ones."""
        with contextlib.suppress(Exception):
            self.sessions.pop(host).close()
        if host in self.relays.routes and self.leads_on(host):
            return  # the hosts behind it stay connected
        with contextlib.suppress(Exception):
            self.connections.pop(host).close()

    def close(self) -> None:
        """Close all connections; the agents end when their input ends."""
        hidden_input.show()
        self.heartbeat.end()
        for host in tuple(self.connections):
            self.forget(host)
        for connection in (*self.connections.values(), *self.gateways.values()):  # of relays, and of jump hosts
            connection.close()
