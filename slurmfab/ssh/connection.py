"""SSH connections by Fabric, with what it leaves out: pinned host keys, no Nagle delay, bounded waits, plain errors."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from functools import cache
from typing import Any

import fabric
import paramiko

from slurmfab.errors import HostError, HostKeyUnknown, InputError, LoginRefused, Unreachable
from slurmfab.ssh.host_keys import PinnedKey, known_keys, refused_types, spelled
from slurmfab.ssh.route import Route

CONNECT_SECONDS = 10
"""How long a TCP connection may take; a host that is switched off answers nothing at all."""

BANNER_SECONDS = 20
"""How long sshd may take to say who it is; many connections at once make it slow, a hanging one never does."""

SILENCE = ("banner", "No existing session")
"""What paramiko says when an sshd accepts a connection and then keeps silent."""

NO_CHANNEL = ("Timeout opening channel", "Unable to open channel")
"""What paramiko says when a jump host waits for a host that answers nothing at all, and of the second of two hosts that
it refuses at the same moment: paramiko keeps one reason for all channels of a connection."""

AUTHENTICATION = "Authentication timeout"
"""What paramiko says when an sshd does not say whether it lets somebody in."""

# Without a handler of its own, paramiko's reports of lost connections go to standard error, tracebacks and all.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

LOGIN_SECONDS = 30
"""How long sshd may take to judge one key, and a jump host to make a connection."""

OPEN_SECONDS = 60
"""How long all of it may take together, whichever step hangs, and however many keys there are to try."""

KEEPALIVE_SECONDS = 5
"""How often something is sent at least, lest a network that is gone be noticed only when somebody asks."""

UNACKNOWLEDGED_SECONDS = 15
"""After how long without an acknowledgement by the other side's kernel a connection is gone (TCP_USER_TIMEOUT, tcp(7)).

However busy a host is, its kernel acknowledges; so this can be shorter than the patience with the agent. A host that
vanishes is noticed within 20 s, as something is sent every 5 s. Behind a jump host only the agent's silence tells.
"""


def connect(route: Route, policy: PinnedKey, gateway: fabric.Connection | None = None) -> fabric.Connection:
    """An open SSH connection to a host.

    Args:
        route: the way to it.
        policy: what holds its pinned key; the key that the host showed is in `policy.shown` afterwards.
        gateway: the open connection to the jump host in front of it.

    Raises:
        Unreachable: no connection, with the reason in words; `HostKeyUnknown`, `HostKeyChanged` and `LoginRefused`
            are kinds of it.
    """
    connection = fabric.Connection(
        route.address,
        user=route.user,
        port=route.port,
        gateway=gateway or route.proxy_command or None,
        config=fabric.Config(overrides={"load_ssh_configs": False}),
        connect_timeout=CONNECT_SECONDS,
        connect_kwargs=login(route, policy),
    )
    connection.client.set_missing_host_key_policy(policy)
    limit = threading.Timer(OPEN_SECONDS, connection.client.close)
    limit.daemon = True
    limit.start()
    try:
        connection.open()
    except HostError:
        raise
    except Exception as error:
        is_undecided = limit.finished.is_set() or AUTHENTICATION in str(error)
        raise (undecided(route) if is_undecided else explained(error, route)) from error
    finally:
        limit.cancel()
    connection.transport.set_keepalive(KEEPALIVE_SECONDS)
    return connection


def login(route: Route, policy: PinnedKey) -> dict[str, Any]:
    """The arguments of paramiko's `SSHClient.connect` for a host: what to log in with, and how long to wait."""
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
    # Files with a passphrase are passed over by paramiko; as a rule an agent holds their keys.
    return {**arguments, "key_filename": list(route.keys)}


@cache
def load_key(path: str) -> paramiko.PKey:
    """A private key, read once for all hosts, since a passphrase makes every reading slow.

    Raises:
        InputError: there is none, or it is encrypted.
    """
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError as error:
        raise InputError(f"There is no private key {path}; name another one with --key or ssh.key.") from error
    except (paramiko.PasswordRequiredException, TypeError) as error:
        raise InputError(
            f"The private key {path} has a passphrase. Add it to an agent (ssh-add {path}) and leave ssh.key out."
        ) from error
    except (OSError, ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
        raise InputError(f"{path} cannot be used as a private key: {error}.") from error


def without_delay(sock: socket.socket, **arguments: Any) -> paramiko.Transport:
    """A transport whose small packets leave at once, and whose broken network is noticed.

    A gateway's channel has no such options, and systems other than Linux lack the second one.
    """
    with contextlib.suppress(AttributeError, OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_SECONDS * 1000)
    return paramiko.Transport(sock, **arguments)


def gateway_policy(route: Route) -> PinnedKey:
    """The pinned key of a jump host, which stands in nobody's lock: that of the user's or the system's known_hosts."""
    return PinnedKey(route.host, known_keys({spelled(route.host, route.port), spelled(route.address, route.port)}))


def explained_gateway(error: HostError) -> Unreachable:
    """Why a jump host cannot be used; its key belongs into known_hosts, since no cluster's lock holds it."""
    if isinstance(error, HostKeyUnknown):
        return Unreachable(
            error.host,
            f"the jump host's SSH host key is unknown: {error.key_type} {error.fingerprint}. "
            "Compare it with its console, then log in there once with ssh, so that ~/.ssh/known_hosts holds it.",
        )
    return Unreachable(error.host, f"the jump host cannot be used: {error.reason}")


def undecided(route: Route) -> Unreachable:
    """What to say of an sshd that neither lets somebody in nor refuses."""
    return Unreachable(
        route.host,
        f"{route.address} port {route.port} does not say in time whether it lets {route.user} in. "
        "Something hangs there: a user database (LDAP), PAM, a home directory on a dead file server.",
    )


def explained(error: Exception, route: Route) -> Unreachable:  # noqa: PLR0911 - one return for each cause
    """Why a connection failed, in words, with what to try."""
    where = f"{route.address} port {route.port}"
    if isinstance(error, paramiko.AuthenticationException):
        others = ", ".join(route.keys) or "the default ones"
        offered = f"the key {route.key}" if route.key else f"the agent's keys and {others}"
        return LoginRefused(
            route.host,
            f"{where} does not let {route.user} in with {offered}. "
            "Put the public key into its authorized_keys, or name another user or key.",
        )
    if isinstance(error, socket.gaierror):
        return Unreachable(
            route.host,
            f"the name {route.address} does not resolve. "
            "Give an address in the cluster file (addresses) or in ssh_config.",
        )
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError | ConnectionRefusedError):
        return Unreachable(route.host, f"nothing listens at {where}. Is the host up, and its sshd running?")
    if isinstance(error, paramiko.ChannelException) or any(words in str(error) for words in NO_CHANNEL):
        return Unreachable(
            route.host,
            f"its jump host makes no connection to {where} ({getattr(error, 'text', 'no answer')}). Is the host up, "
            "does the jump host reach it, and does its sshd allow that (AllowTcpForwarding in sshd_config)?",
        )
    if isinstance(error, TimeoutError):
        return Unreachable(
            route.host,
            f"no answer from {where} within {CONNECT_SECONDS} s. Is the host up, and no firewall in between?",
        )
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer) and "host key" in str(error):
        return Unreachable(route.host, f"{where} offers no SSH host key of a type that is pinned for it.")
    if isinstance(error, EOFError) or any(words in str(error) for words in SILENCE):
        return Unreachable(
            route.host,
            f"{where} accepts connections but keeps silent. "
            "Its sshd hangs, or the host is overloaded or shutting down.",
        )
    return Unreachable(route.host, f"no SSH connection to {where}: {str(error) or type(error).__name__}.")
