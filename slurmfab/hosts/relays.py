"""Relays: hosts of the cluster through whose one connection those behind them are reached, as long as they work."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import HostError, Unreachable
from slurmfab.base.terminal import write

if TYPE_CHECKING:
    import paramiko

    from slurmfab.hosts.host_keys import PinnedKey
    from slurmfab.hosts.route import Route

END_SECONDS = 1.0  # how long after the end of a channel the end of the relay's own connection may show
PROHIBITED = 1  # the reason of a server that forwards no connections to anywhere (RFC 4254, section 5.1)

PROHIBITS = (
    "its sshd forwards no connections (AllowTcpForwarding, PermitOpen or DisableForwarding in sshd_config, or restrict "
    "in authorized_keys)."
)


def tell_on_standard_error(line: str) -> None:
    """Write a line to standard error."""
    write(line, sys.stderr)


class Relays:
    """The relays of some routes: which of them work, and which host goes through which.

    `connection`: returns the open connection to a relay, or raises HostError. `tell`: gets a line for people when a
    relay is given up or its connection is lost.
    """

    def __init__(
        self, connection: Callable[[str], paramiko.SSHClient], tell: Callable[[str], None] = tell_on_standard_error
    ) -> None:
        self.connection = connection
        self.tell = tell
        self.routes: dict[str, Route] = {}
        self.locks: dict[str, threading.RLock] = {}
        self.given_up: dict[str, str] = {}
        self.lost: set[int] = set()
        self.through: dict[str, tuple[Route, paramiko.SSHClient]] = {}

    def add(self, routes: Mapping[str, Route]) -> None:
        """Take note of the relays of some routes."""
        for route in routes.values():
            for relay in route.relays:
                if relay.host not in self.routes:
                    self.routes[relay.host] = relay
                    self.locks[relay.host] = threading.RLock()

    def lock(self, host: str) -> AbstractContextManager[Any]:
        """What lets one thread at a time connect to a relay; nothing for another host."""
        return self.locks.get(host) or contextlib.nullcontext()

    def connect(self, route: Route, policy: PinnedKey) -> tuple[paramiko.SSHClient | None, str]:
        """A connection to a host through the first of its relays that leads there; else `None`, and why, for people.

        Raises Unreachable of a host that a relay leads to, such as HostKeyChanged, or that does not answer a relay.
        """
        reasons = []
        for relay in route.relays:
            client = self.opened(relay.host)
            if client is None:
                reasons.append(f"{relay.host}: {self.given_up[relay.host]}")
                continue
            try:
                made = self.forwarded(route, policy, client)
            except NotForwarded as error:
                reasons.append(f"{relay.host}: {error.reason}")
                if error.is_prohibited:
                    self.give_up(relay.host, error.reason)
                continue
            self.through[route.host] = relay, client
            return made, ""
        return None, " ".join(reasons)

    def forwarded(self, route: Route, policy: PinnedKey, client: paramiko.SSHClient) -> paramiko.SSHClient:
        """A connection over a channel of a relay; NotForwarded if the relay cannot provide that, else Unreachable."""
        import paramiko  # slow to import, and here by now

        from slurmfab.hosts.connection import NO_CHANNEL, connect

        try:
            return connect(route, policy, client)
        except Unreachable as error:
            why = error.__cause__
            if isinstance(why, paramiko.ChannelException) and why.code == PROHIBITED:
                raise NotForwarded(PROHIBITS, is_prohibited=True) from None
            if why is not None and has_ended(client, END_SECONDS):
                raise NotForwarded("its connection was lost.") from None
            # A host that answers a relay neither with a connection nor with a refusal is off: no other relay gets one.
            if isinstance(why, paramiko.ChannelException) or NO_CHANNEL[1] in str(why):
                text = getattr(why, "text", "") or "no reason given"
                raise NotForwarded(f"it cannot connect to {route.address} port {route.port} ({text}).") from None
            raise

    def opened(self, relay: str) -> paramiko.SSHClient | None:
        """The open connection to a relay; `None` if there is none now, or was none before."""
        with self.locks[relay]:
            if relay in self.given_up:
                return None
            try:
                return self.connection(relay)
            except HostError as error:
                self.give_up(relay, error.reason)
                return None

    def give_up(self, relay: str, reason: str) -> None:
        """Use a relay no more, and say so once."""
        with self.locks[relay]:
            if relay not in self.given_up:
                self.given_up[relay] = reason
                self.tell(f"{relay}: not used as a relay, so the hosts behind it are reached another way: {reason}")

    def has_lost(self, host: str, seconds: float = 0.0) -> bool:
        """Whether a host went through a relay whose connection has ended, or does within so many seconds.

        The first time for each connection, it is told.
        """
        relay, client = self.through.get(host, (None, None))
        if relay is None or client is None or not has_ended(client, seconds):
            return False
        with self.locks[relay.host]:
            if id(client) not in self.lost:
                self.lost.add(id(client))
                self.tell(f"{relay.host}: its connection was lost; the hosts behind it are reached anew.")
        return True


def has_ended(client: paramiko.SSHClient, seconds: float) -> bool:
    """Whether a connection has ended, or does within so many seconds: its channels end a moment before that shows."""
    transport = client.get_transport()
    if transport is None or not transport.is_active():
        return True
    if seconds:
        transport.join(seconds)
    return not transport.is_active()


class NotForwarded(Exception):
    """A relay that does not lead to a host. `is_prohibited`: because its sshd lets it lead to none."""

    def __init__(self, reason: str, *, is_prohibited: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_prohibited = is_prohibited
