"""The connections of a proxy for packages: who is let in, what is served, and how a request is read.

GET /TOKEN            a host of the cluster, which has the token over SSH, shows its address; a token counts once
GET http://SOURCE/... a file of a package source
CONNECT SOURCE:443    a connection to a source with https, whose content nobody here can read or keep

All else is refused, and so is every address that has shown no token.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
from typing import Dict, Iterable, Mapping, NamedTuple, Optional, Set, Tuple

from slurmfab.on_hosts.agent.packages import proxy_sources, proxy_upstream
from slurmfab.on_hosts.agent.packages.proxy_cache import OK, Cache, Entry

MOST_CONNECTIONS = 384  # at the same time: 64 hosts are at work, each with some connections
MOST_STRANGERS = 32  # of them without an address that is let in
IDLE_SECONDS = 300.0  # how long a host may be silent, as while apt verifies
STRANGER_SECONDS = 5.0
MOST_HEAD = 16 * 1024  # bytes of a request
PIECE = 64 * 1024

REQUEST = re.compile(r"(GET|CONNECT) ([\x21-\x7e]{1,4096}) HTTP/1\.[01]")
WAITING = re.compile(rb"^GET (http://[\x21-\x7e]{1,4096}) HTTP/1\.1\r$", re.MULTILINE)
"""Requests that apt has sent before the present one was answered."""

BENT = re.compile(r"/\.{1,2}(?:/|$)|%2e|%2f|\\|@|#", re.IGNORECASE)
"""What could make another place of an address than the one with which it begins."""


class Request(NamedTuple):
    """A request without a body."""

    method: str
    target: str
    headers: Mapping[str, str]  # by name in small letters


class Server:
    """The connections of a proxy.

    Args:
        uris: addresses of package sources with a slash at the end; what lies below those with http is served, and a
            connection is made to those with https.
        tokens: by which hosts show their addresses.
        settings: of this host's apt, about proxies.
    """

    def __init__(self, uris: Iterable[str], tokens: Iterable[str], settings: Mapping[str, str], cache: Cache) -> None:
        self.cache = cache
        self.settings = settings
        found = [match for match in map(proxy_sources.ADDRESS.fullmatch, uris) if match]
        self.served = tuple(one.group() for one in found if one["scheme"] == "http")
        self.tunnels = {(one["host"].lower(), int(one["port"] or 443)) for one in found if one["scheme"] == "https"}
        self.tokens = set(tokens)
        self.members: Set[str] = set()
        self.lock = threading.Lock()
        self.at_work, self.strangers = 0, 0
        self.sent, self.sent_bytes = 0, 0

    def serve(self, listener: socket.socket, lifeline: int) -> None:
        """Serve until something can be read from the lifeline, or it ends."""
        while True:
            readable, _, _ = select.select([listener.fileno(), lifeline], [], [])
            if lifeline in readable:
                return
            with contextlib.suppress(OSError):
                connection, peer = listener.accept()
                self.begin(connection, peer[0])

    def begin(self, connection: socket.socket, peer: str) -> None:
        """Serve a connection in a thread of its own, or close it where there are too many."""
        with self.lock:
            is_stranger = peer not in self.members
            if self.at_work >= MOST_CONNECTIONS or (is_stranger and self.strangers >= MOST_STRANGERS):
                connection.close()
                return
            self.at_work += 1
            self.strangers += is_stranger
        threading.Thread(target=self.work, args=(connection, peer, is_stranger), daemon=True).start()

    def work(self, connection: socket.socket, peer: str, is_stranger: bool) -> None:
        """Answer the requests of a connection, one after the other."""
        try:
            with connection, contextlib.suppress(OSError):
                connection.settimeout(STRANGER_SECONDS if is_stranger else IDLE_SECONDS)
                rest = b""
                while True:
                    head, rest = read_head(connection, rest)
                    if not self.answer(connection, peer, head, rest):
                        return
        finally:
            with self.lock:
                self.at_work -= 1
                self.strangers -= is_stranger

    def answer(self, connection: socket.socket, peer: str, head: bytes, rest: bytes) -> bool:
        """Answer a request; whether the connection goes on."""
        request = parsed(head)
        if request is None:
            refuse(connection, 400, "slurmfab serves no such request")
        elif self.admits(peer, request.target):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif peer not in self.members:
            refuse(connection, 403, "slurmfab serves hosts that it installs packages on, and %s is none" % peer)
        elif request.method == "CONNECT":
            self.connect(connection, request.target)
        elif not self.serves(request.target):
            refuse(connection, 403, "this is below no package source of the controller")
        elif "authorization" in request.headers:
            refuse(connection, 403, "slurmfab passes on no passwords of package sources")
        else:
            for url in WAITING.findall(rest):
                if self.serves(url.decode()):
                    self.cache.entry(url.decode())
            return self.send(connection, self.cache.entry(request.target), request.headers)
        return False

    def admits(self, peer: str, target: str) -> bool:
        """Whether a request shows a token, which lets its address in and counts no more."""
        token = target[1:]
        with self.lock:
            if not target.startswith("/") or token not in self.tokens:
                return False
            self.tokens.discard(token)
            self.members.add(peer)
            return True

    def serves(self, url: str) -> bool:
        """Whether an address is below a package source."""
        return url.startswith(self.served) and not BENT.search(url)

    def send(self, connection: socket.socket, entry: Entry, headers: Mapping[str, str]) -> bool:
        """Send a file while it is fetched; whether the connection goes on."""
        try:
            entry.head()
        except OSError as error:
            refuse(connection, 502, "the controller cannot fetch it: %s" % error)
            return False
        if entry.status != OK:
            refuse(connection, entry.status, "the source has no such file", is_last=False)
            return True
        if entry.modified and headers.get("if-modified-since") == entry.modified:
            connection.sendall(b"HTTP/1.1 304 Not Modified\r\n\r\n")
            return True
        dated = "Last-Modified: %s\r\n" % entry.modified if entry.modified else ""
        connection.sendall(("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (entry.size, dated)).encode("latin-1"))
        for piece in entry.pieces():
            connection.sendall(piece)
        with self.lock:
            self.sent, self.sent_bytes = self.sent + 1, self.sent_bytes + entry.size
        return True

    def connect(self, connection: socket.socket, target: str) -> None:
        """Pass bytes on between a host and a source with https, until one of them ends."""
        host, _, port = target.rpartition(":")
        if not port.isdecimal() or (host.lower(), int(port)) not in self.tunnels:
            refuse(connection, 403, "this is no package source of the controller")
            return
        try:
            far = proxy_upstream.tunnel(self.settings, host, int(port))
        except OSError as error:
            refuse(connection, 502, "the controller cannot reach it: %s" % error)
            return
        with far:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            pass_on(connection, far)

    def counts(self) -> Dict[str, int]:
        """How many files and bytes were fetched, and how many were sent."""
        cache = self.cache
        fetched = {"fetched": cache.fetched, "fetched_bytes": cache.fetched_bytes}
        return {**fetched, "sent": self.sent, "sent_bytes": self.sent_bytes}


def read_head(connection: socket.socket, rest: bytes) -> Tuple[bytes, bytes]:
    """A request's head, and what has arrived behind it; OSError at the end, or if the head is too long."""
    while b"\r\n\r\n" not in rest:
        data = connection.recv(MOST_HEAD) if len(rest) < MOST_HEAD else b""
        if not data:
            raise OSError("no request")
        rest += data
    head, _, rest = rest.partition(b"\r\n\r\n")
    return head, rest


def parsed(head: bytes) -> Optional[Request]:
    """The request in a head; `None` for one that is none, or that has a body."""
    first, *lines = head.decode("latin-1").split("\r\n")
    match = REQUEST.fullmatch(first)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if match is None or "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        return None
    return Request(match[1], match[2], headers)


def refuse(connection: socket.socket, status: int, why: str, *, is_last: bool = True) -> None:
    """Answer with a reason, which apt shows, and without content."""
    words = re.sub(r"[^\x20-\x7e]", "?", why)[:300]
    last = "Connection: close\r\n" if is_last else ""
    connection.sendall(("HTTP/1.1 %d %s\r\nContent-Length: 0\r\n%s\r\n" % (status, words, last)).encode())


def pass_on(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes on in both directions until one side ends, or both are silent for too long."""
    ways = {one.fileno(): (one, other), other.fileno(): (other, one)}
    poll = select.poll()  # select(2) takes no descriptors beyond 1,023
    for number in ways:
        poll.register(number, select.POLLIN)
    while True:
        ready = poll.poll(IDLE_SECONDS * 1000)
        for number, _ in ready:
            source, target = ways[number]
            data = source.recv(PIECE)
            if not data:
                return
            target.sendall(data)
        if not ready:
            return
