"""SSH connections by paramiko: pinned host keys, no Nagle delay, time limits, plain error messages."""

from __future__ import annotations

import contextlib
import errno
import hmac
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA

from slurmfab.base import bounded_file
from slurmfab.base.errors import HostError, HostKeyUnknown, InputError, LoginRefused, NameUnknown, Unreachable
from slurmfab.base.terminal import harmless
from slurmfab.hosts.fan_out import give_up_turn, turn_for
from slurmfab.hosts.host_keys import PinnedKey, known_host, refused_types
from slurmfab.hosts.route import Route

CERTIFICATE, LARGEST_KEY = "-cert.pub", 64 << 10  # what paramiko adds to a key's path; the most bytes of both

SOON_SECONDS = 1  # after this time without a TCP connection others are asked meanwhile

BANNER_SECONDS = 20
"""Time limit for the SSH banner; sshd is slow with many connections at once, and a hanging sshd never sends it."""

NO_BANNER = ("banner", "No existing session")
"""Parts of paramiko's message about an sshd that accepts a connection and then sends no banner."""

TRIES, AT_ONCE_SECONDS, PAUSE_SECONDS = 3, 2.0, 1.0
"""How often a connection is opened that ends at once, without a banner, and the time between: sshd does so while it
restarts, as by cloud-init at a machine's first boot, and while it has too many logins under way."""

NO_CHANNEL = ("Timeout opening channel", "Unable to open channel")
"""Parts of paramiko's message if a jump host waits for a host that does not answer, or refuses two hosts at the
same moment: paramiko keeps one reason for all channels of a connection."""

NO_KEY = "No authentication methods available"  # part of paramiko's message if there is no key to offer
HUNG_UP = "transport shut down or saw EOF"  # part of paramiko's message if sshd ends the connection during a login
MOST_SAID = 200  # the most characters of sshd's message that are shown

SSH_PORT = 22
MOST_PACKET = 1 << 19  # the most bytes of a packet, twice as many as OpenSSH sends or takes (packet.c)
READ_BYTES = 8192  # the most bytes that are read at once; a thread that waits for them holds as much memory

AUTHENTICATION = "Authentication timeout"
"""Part of paramiko's message if sshd neither accepts nor refuses a login in time."""

# paramiko compares each message's code byte by byte in Python, which is a tenth of what a connection costs.
paramiko.util.constant_time_bytes_eq = hmac.compare_digest  # type: ignore[assignment]
# Without a handler of its own, paramiko's reports of lost connections go to standard error, tracebacks and all.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

LOGIN_SECONDS = 30  # time limit for sshd to check one key, and to begin a session
OPEN_SECONDS = 60  # time limit for all steps together, whichever of them hangs, and however many keys are tried
KEEPALIVE_SECONDS = 5  # a keepalive is sent this often, so that a lost network is noticed even between requests

LOOK_SECONDS = 1.0
"""How often the thread of a connection wakes while nothing arrives, until an agent runs there."""

LOOK_LATER_SECONDS = 15.0
"""How often it does afterwards. With many connections, waking costs more than all else that they do; the heartbeats of
the agents' sessions then notice a lost network."""

UNACKNOWLEDGED_SECONDS = 15
"""A connection ends after this time without a TCP acknowledgement (TCP_USER_TIMEOUT, tcp(7)).

The kernel of a busy host still acknowledges, so this can be shorter than the time limit for the agent's data. A host
that disappears is noticed within 20 s, as data is sent every 5 s. Behind a jump host only the agent's time limit works.
"""


def connect(route: Route, policy: PinnedKey, gateway: paramiko.SSHClient | None = None) -> paramiko.SSHClient:
    """Open an SSH connection by a jump host's, if any; `policy`, which checks the host key, has it in `shown`.

    Raises Unreachable, with its subclasses for host keys and logins; InputError if the private key cannot be read.
    """
    for left in reversed(range(1 if route.proxy_command else TRIES)):
        begun = time.monotonic()
        try:
            return open_connection(route, policy, gateway)
        except Unreachable as error:
            is_late = time.monotonic() - begun > AT_ONCE_SECONDS
            if not left or is_late or not has_no_banner(error.__cause__):
                raise
        time.sleep(PAUSE_SECONDS)
    raise AssertionError("the last try returns or raises")


def has_no_banner(error: BaseException | None) -> bool:
    """Whether an sshd has accepted a connection and sent no banner."""
    return isinstance(error, EOFError) or any(part in str(error) for part in NO_BANNER)


def open_connection(route: Route, policy: PinnedKey, gateway: paramiko.SSHClient | None) -> paramiko.SSHClient:
    """The same, tried once."""
    client = Client()
    arguments = login(route, policy)
    policy.consult(route)
    client.set_missing_host_key_policy(policy)
    is_late = threading.Event()
    limit = threading.Timer(OPEN_SECONDS, give_up, (client, is_late))
    limit.daemon = True
    limit.start()
    try:
        client.connect(route.address, port=route.port, username=route.user, sock=way_to(route, gateway), **arguments)
    except HostError:
        raise
    except Exception as error:
        if more := excess(client):
            raise Unreachable(route.host, f"{more}, so that the connection was closed.") from None
        is_undecided = is_late.is_set() or AUTHENTICATION in str(error)
        raise (undecided(route) if is_undecided else explained(error, route, banner(client))) from error
    finally:
        limit.cancel()
    transport_of(client).set_keepalive(KEEPALIVE_SECONDS)
    return client


class Client(paramiko.SSHClient):
    """A client without tables of known hosts, which `PinnedKey` replaces: a look into one makes a class, of 5 KiB."""

    def __init__(self) -> None:
        super().__init__()
        self._system_host_keys: dict[str, object] = {}
        self._host_keys: dict[str, object] = {}


def way_to(route: Route, gateway: paramiko.SSHClient | None) -> Any:
    """What leads to a host: a channel of its jump host or relay, a proxy command, or a connection of its own."""
    if gateway is not None:
        with turn_for(SOON_SECONDS):
            way = (route.address, route.port), ("", 0)
            return OrderedChannel(transport_of(gateway).open_channel("direct-tcpip", *way, timeout=route.patience))
    if route.proxy_command:
        return paramiko.ProxyCommand(route.proxy_command)
    failure: OSError = OSError(f"{route.address} has no address")
    for family_, kind, protocol, _, place in socket.getaddrinfo(route.address, route.port, type=socket.SOCK_STREAM):
        sock = GreedySocket(family_, kind, protocol)
        try:
            sock.reach(place, route.patience)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


class OrderedChannel:
    """A channel of a jump host or relay, through which nothing is sent after its close.

    With data for a channel that it has closed, sshd ends the whole connection, and all that go through it (channels.c:
    "referred to nonexistent channel"). paramiko looks whether a channel is closed, and sends later, in several threads.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel
        self.sending = threading.Lock()

    def send(self, data: bytes) -> int:
        """Send what fits; as of a socket."""
        with self.sending:
            return self.channel.send(data)

    def close(self) -> None:
        """Close it, after what is being sent."""
        with self.sending:
            self.channel.close()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the channel's own."""
        return getattr(self.channel, name)


class GreedySocket(socket.socket):
    """A socket that reads all that has come: paramiko reads each message in three parts, a call of the system each."""

    read = b""

    def reach(self, place: Any, patience: float) -> None:
        """Connect within so many seconds, or raise OSError; other hosts go on if this one does not answer soon."""
        self.setblocking(False)
        code = self.connect_ex(place)
        if code == errno.EINPROGRESS:
            poll = select.poll()
            poll.register(self, select.POLLOUT)
            if not poll.poll(1000 * SOON_SECONDS):
                give_up_turn()
                if not poll.poll(1000 * (patience - SOON_SECONDS)):
                    raise TimeoutError
            code = self.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            # To an operator both are a host that is down, or has no sshd.
            kind = ConnectionRefusedError if code in {errno.ECONNREFUSED, errno.EHOSTUNREACH} else OSError
            raise kind(code, os.strerror(code))

    def recv(self, size: int, _flags: int = 0) -> bytes:
        """At most so many bytes, none at the end; TimeoutError."""
        data = self.read or super().recv(READ_BYTES)
        self.read = data[size:]
        return data[:size]


def transport_of(client: paramiko.SSHClient) -> paramiko.Transport:
    """The transport of a connection. Raises EOFError if the connection has been closed."""
    transport = client.get_transport()
    if transport is None:
        raise EOFError
    return transport


def excess(of: paramiko.Channel | paramiko.SSHClient) -> str:
    """What a server sent too much, after which the connection was closed; empty for nothing."""
    return str(getattr(getattr(of.get_transport(), "packetizer", None), "excess", ""))


def is_open(client: paramiko.SSHClient) -> bool:
    """Whether a connection still stands."""
    transport = client.get_transport()
    return transport is not None and transport.is_active()


def banner(client: paramiko.SSHClient) -> str:
    """What sshd sent for the user to read during the login, such as the text of /etc/nologin; empty for nothing."""
    transport = client.get_transport()
    # Not `get_banner`, which has nothing to tell once the connection has ended.
    sent = getattr(transport.auth_handler, "banner", None) if transport else None
    return (sent or b"").decode(errors="replace")


def give_up(client: paramiko.SSHClient, is_late: threading.Event) -> None:
    """End an attempt to connect that takes too long; says so first, since the other thread notices the end at once."""
    is_late.set()
    client.close()


def login(route: Route, policy: PinnedKey) -> dict[str, Any]:
    """The arguments of paramiko's `SSHClient.connect` for a host: keys and time limits."""
    arguments: dict[str, Any] = {
        "banner_timeout": BANNER_SECONDS,
        "auth_timeout": LOGIN_SECONDS,
        "channel_timeout": LOGIN_SECONDS,
        "transport_factory": without_delay,
        "allow_agent": not route.key,
        "look_for_keys": not route.key and not route.keys,
        "disabled_algorithms": {"keys": refused_types(policy.pinned)},
    }
    if route.key:
        return {**arguments, "pkey": load_key(route.key)}
    # paramiko skips files with a passphrase; usually an SSH agent holds their keys.
    return {**arguments, "key_filename": list(route.keys)}


@cache
def load_key(path: str) -> paramiko.PKey:
    """Read a private key, once for all hosts; InputError if it is missing, has a passphrase, or is none."""
    try:
        # paramiko reads both as a whole, whatever they are.
        key, certificate = Path(path).expanduser(), Path(path + CERTIFICATE).expanduser()
        for file in (key, certificate) if certificate.exists() else (key,):
            bounded_file.read(file, LARGEST_KEY)
        return paramiko.PKey.from_path(path)
    except FileNotFoundError as error:
        raise InputError(f"The private key {path} does not exist. Name another one with --key or ssh.key.") from error
    except (paramiko.PasswordRequiredException, TypeError) as error:
        raise InputError(
            f"The private key {path} has a passphrase. Add it to an SSH agent (ssh-add {path}), "
            "and leave out --key and ssh.key."
        ) from error
    except (OSError, ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
        raise InputError(f"{path} cannot be used as a private key: {error}.") from error


class ProxySocket(paramiko.ProxyCommand):
    """A running proxy command as a socket whose end is noticed at once, unlike paramiko's own."""

    def __init__(self, started: paramiko.ProxyCommand) -> None:
        vars(self).update(vars(started))

    def recv(self, size: int) -> bytes:
        """At most so many bytes, none when the program has closed its output; TimeoutError of paramiko's."""
        output: Any = self.process.stdout
        poll = select.poll()  # select(2) knows no files beyond the first 1,024
        poll.register(output, select.POLLIN)
        if not poll.poll(None if self.timeout is None else 1000 * self.timeout):
            raise TimeoutError
        return os.read(output.fileno(), size)


class BoundedPacketizer(paramiko.packet.Packetizer):
    """Reads packets of at most `MOST_PACKET`; paramiko's own reads what a server says, up to 4 GiB, whole.

    `excess`: what the server sent too much, after which the connection ended; empty for nothing.
    """

    excess = ""
    begun = 0  # bytes that came before the first packet

    def refuse(self, excess: str) -> NoReturn:
        """End the connection, and keep why: paramiko forgets an error once it is told."""
        self.excess = excess
        raise paramiko.SSHException(excess)

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """So many bytes."""
        if n > MOST_PACKET:
            self.refuse(f"it sent more than {MOST_PACKET >> 10} KiB in one packet")
        return super().read_all(n, check_rekey)

    def _read_timeout(self, timeout: float) -> bytes:
        """Some bytes of the lines before the first packet."""
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self.begun += len(data)
        if self.begun > MOST_PACKET:
            self.refuse(f"it sent more than {MOST_PACKET >> 10} KiB before SSH began")
        return data


def bounded(feed: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """One of paramiko's functions that take data of a channel, which ends the connection if too much is unread.

    paramiko offers a window, and does not look whether the server keeps to it. Who does has never more unread.
    """

    def take(channel: Any, message: paramiko.Message) -> None:
        feed(channel, message)
        most = channel.in_window_size + channel.in_max_packet_size
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > most:
            channel.transport.packetizer.refuse(f"it sent more than the {most >> 10} KiB that SSH let it send")

    return take


TAKING: dict[int, Any] = vars(paramiko.Transport)["_channel_handler_table"]
"""paramiko's functions for messages about channels, by the code of the message; all data of channels comes by here."""


class BoundedTransport(paramiko.Transport):
    """A transport that a server cannot make keep any amount of data, also while nobody reads."""

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **TAKING,
        **{kind: bounded(TAKING[kind]) for kind in (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA)},
    }

    def __init__(self, sock: Any, **arguments: Any) -> None:
        super().__init__(sock, packetizer_class=BoundedPacketizer, **arguments)


class PatientTransport(BoundedTransport):
    """A transport whose thread looks once a second, and not ten times, whether it shall end or send.

    `sock`: a socket, or a channel of a jump host or relay.
    """

    def __init__(self, sock: Any, **arguments: Any) -> None:
        super().__init__(sock, **arguments)
        sock.settimeout(LOOK_SECONDS)

    def stop_thread(self) -> None:
        """End the thread now: the end of the connection wakes it."""
        if not isinstance(self.sock, socket.socket):
            self.active = False
            self.packetizer.close()
            self.sock.close()
            return
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        super().stop_thread()


def look_seldom(client: paramiko.SSHClient) -> None:
    """Leave a connection to the heartbeats of the session that runs over it."""
    transport = client.get_transport()
    if isinstance(transport, PatientTransport):
        transport.set_keepalive(0)
        transport.sock.settimeout(LOOK_LATER_SECONDS)


def without_delay(sock: Any, **arguments: Any) -> paramiko.Transport:
    """Make a transport that sends small packets at once and notices a lost network; only Linux has TCP_USER_TIMEOUT."""
    if isinstance(sock, paramiko.ProxyCommand):
        return BoundedTransport(ProxySocket(sock), **arguments)
    if not isinstance(sock, socket.socket):  # a channel of a jump host or relay
        return PatientTransport(sock, **arguments)
    with contextlib.suppress(AttributeError, OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_SECONDS * 1000)
    return PatientTransport(sock, **arguments)


def gateway_policy(route: Route) -> PinnedKey:
    """The host key check of a jump host: no lock has its key, so it must be in a known_hosts file."""
    return PinnedKey(route.host, known_host(route).keys())


def explained_gateway(error: HostError) -> Unreachable:
    """The error of a jump host; its host key must be in known_hosts, since no lock has it."""
    if isinstance(error, HostKeyUnknown):
        return Unreachable(
            error.host,
            f"the jump host's SSH host key is unknown: {error.key_type} {error.fingerprint}. {error.note}"
            "Compare it with the one on its console, then log in there once with ssh, which adds it to "
            "~/.ssh/known_hosts.",
        )
    return Unreachable(error.host, f"the jump host cannot be used: {error.reason}")


def place_of(route: Route) -> str:
    """Where SSH connects to, for a sentence that begins with the host."""
    return f"{'its' if route.address == route.host else route.address} port {route.port}"


def undecided(route: Route) -> Unreachable:
    """The error for an sshd that neither accepts nor refuses a login in time."""
    return Unreachable(
        route.host,
        f"SSH login timed out: {place_of(route)} neither accepted nor refused {route.user}. "
        "Something on the host hangs: a user database (LDAP), PAM, or a home directory on a dead file server.",
    )


def refused_login(error: Exception, route: Route, message: str = "") -> LoginRefused:
    """The error of a refused login, without a usable or accepted key, and what sshd sent to the user."""
    where = place_of(route)
    port = "" if route.port == SSH_PORT else f"-p {route.port} "
    install = f"ssh-copy-id {port}{route.user}@{route.address}"
    if NO_KEY in str(error):
        places = ", ".join(route.keys) or "~/.ssh"
        return LoginRefused(
            route.host,
            f"there is no SSH key for the login at {where}: none in an SSH agent, none in {places}. Name a private key "
            "(--key at first contact, key under ssh in the cluster file), or make one: ssh-keygen -t ed25519. "
            f"Then put its public key on the host: {install}.",
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return LoginRefused(
            route.host, f"the SSH keys for the login at {where} have a passphrase. Add them to an SSH agent: ssh-add."
        )
    return LoginRefused(route.host, refused_keys(error, route, message, install))


def refused_keys(error: Exception, route: Route, message: str, install: str) -> str:
    """Why a login with keys was refused, as far as sshd lets a client know, and what to try.

    `install`: the command that puts a key on the host.
    """
    others = ", ".join(route.keys) or "the default keys in ~/.ssh"
    offered = f"the key {route.key}" if route.key else f"the keys of the SSH agent and {others}"
    what = f"{place_of(route)} refused the login of {route.user} with {offered}"
    another = "name another user or key (--user and --key at first contact, ssh in the cluster file)"
    words = harmless(" ".join(message.split()))[:MOST_SAID].rstrip(".")
    said = f" It said: {words}." if words else ""
    log = "sshd's log there says why (journalctl -u ssh)"
    if isinstance(error, paramiko.BadAuthenticationType):
        ways = ", ".join(error.allowed_types)
        return f"{what}: it takes no keys from this user, only {ways}. See PubkeyAuthentication in sshd_config there."
    if HUNG_UP in str(error):
        return (
            f"{what} by ending the connection.{said} Either it lets nobody in or this account is closed (/etc/nologin, "
            f"expiry), or too many keys were offered (MaxAuthTries); {log}."
        )
    if route.user == "root":
        return (
            f"{what}.{said} Either none of these keys is in root's authorized_keys there, or sshd lets root in never "
            f"(PermitRootLogin no); to a client both look alike, and {log}. Add the key on the host's console "
            f"({install} works only where root may log in with a password), or {another}."
        )
    return (
        f"{what}.{said} Add the public key to authorized_keys there ({install}). If it is there already, sshd "
        "refuses it or the user: a home or .ssh that others may write, a login shell that does not exist, "
        f"AllowUsers; {log}. Or {another}."
    )


def explained(error: Exception, route: Route, message: str = "") -> Unreachable:
    """The error for a failed connection: why it failed, and what to try; arguments as for `refused_login`."""
    where = place_of(route)
    if isinstance(error, paramiko.AuthenticationException) or NO_KEY in str(error):
        return refused_login(error, route, message)
    if isinstance(error, socket.gaierror):
        return NameUnknown(
            route.host,
            f"the name {route.address} does not resolve. Give it an address: in DNS, as HostName in ssh_config, or, "
            "for a host of the cluster file, under addresses there. Hosts that are to join go by addresses, too.",
        )
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(route.host, f"nothing listens at {where}. Is the host up, and its sshd running?")
    if isinstance(error, paramiko.ChannelException) or any(part in str(error) for part in NO_CHANNEL):
        return Unreachable(
            route.host,
            f"its jump host cannot connect to {where} ({getattr(error, 'text', 'no answer')}). Is the host up, "
            "does the jump host reach it, and does its sshd allow that (AllowTcpForwarding in sshd_config)?",
        )
    if getattr(error, "errno", 0) == errno.EMFILE:
        return Unreachable(
            route.host,
            "this machine lets one program open no more files, of which each host needs one. Allow more (ulimit -n), "
            "or reach hosts through relays (ssh.relays in the cluster file).",
        )
    if isinstance(error, TimeoutError):
        return Unreachable(
            route.host,
            f"no answer from {where} within {route.patience} s. Is the host up? Does a firewall block the port?",
        )
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer) and "host key" in str(error):
        return Unreachable(route.host, f"{where} offers no SSH host key of a type that is pinned for it.")
    if has_no_banner(error):
        return Unreachable(
            route.host,
            f"{where} accepts connections but sends no SSH banner. "
            "Its sshd hangs, or the host is overloaded or shutting down.",
        )
    return Unreachable(route.host, f"no SSH connection to {where}: {str(error) or type(error).__name__}.")
