"""The proxy for package sources: real connections to it, and a real source behind it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from local_agent import Agent

from slurmfab.on_hosts.agent.packages import proxy, proxy_cache, proxy_sources
from slurmfab.on_hosts.agent.packages.proxy_cache import Cache
from slurmfab.on_hosts.agent.packages.proxy_server import Server
from slurmfab.on_hosts.agent.packages.proxy_upstream import Upstream

HERE = "127.0.0.1"
BODY = os.urandom(1 << 20)
TOKENS = ("first", "second")


@dataclass
class Source:
    """A package source that counts what it is asked for, and lets each test decide what it answers."""

    address: str
    asked: Counter[str] = field(default_factory=Counter)
    release: threading.Event = field(default_factory=threading.Event)
    places: dict[str, str] = field(default_factory=dict)  # redirections by path

    @property
    def uri(self) -> str:
        return f"http://{self.address}/debian/"


@pytest.fixture
def source() -> Iterator[Source]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.asked[self.path] += 1
            if self.path in made.places:
                self.answer(302, b"", Location=made.places[self.path])
            elif "absent" in self.path:
                self.answer(404, b"")
            elif "cut" in self.path:
                self.send_response(200)
                self.send_header("Content-Length", str(2 * len(BODY)))
                self.end_headers()
                self.wfile.write(BODY)
                self.close_connection = True
            elif "slow" in self.path:
                self.send_response(200)
                self.send_header("Content-Length", str(len(BODY)))
                self.end_headers()
                self.wfile.write(BODY[:1000])
                self.wfile.flush()
                made.release.wait(30)
                self.wfile.write(BODY[1000:])
            else:
                self.answer(200, BODY, **{"Last-Modified": "Fri, 27 Nov 2026 10:00:00 GMT"})

        def answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((HERE, 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    made = Source(f"{HERE}:{server.server_address[1]}")
    yield made
    made.release.set()
    server.shutdown()
    server.server_close()


def fetched(
    port: int, target: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, str, bytes]:
    """Status, reason and content of what the proxy answers."""
    connection = HTTPConnection(HERE, port, timeout=30)
    try:
        connection.request(method, target, headers=headers or {})
        reply = connection.getresponse()
        return reply.status, reply.reason, reply.read()
    finally:
        connection.close()


@pytest.fixture
def listening() -> Iterator[Callable[..., Server]]:
    """A function that starts a proxy for some addresses; the server's `port` is where it listens."""
    running: list[tuple[threading.Thread, int, int]] = []

    def start(*uris: str) -> Server:
        server = Server(uris, TOKENS, {}, Cache(Upstream({})))
        listener = socket.create_server((HERE, 0))
        near, far = os.pipe()
        vars(server)["port"] = listener.getsockname()[1]
        thread = threading.Thread(target=server.serve, args=(listener, near), daemon=True)
        running.append((thread, near, far))
        thread.start()
        return server

    yield start
    for thread, near, far in running:
        os.close(far)
        thread.join(10)
        os.close(near)


@pytest.fixture
def port(listening: Callable[..., Server], source: Source) -> int:
    """The port of a proxy for the source, which has let this machine in."""
    found: int = vars(listening(source.uri))["port"]
    assert fetched(found, "/first")[0] == 200
    return found


def test_a_file_when_many_ask_for_it_at_once_then_it_is_fetched_once_and_each_gets_all_of_it(
    source: Source, port: int
) -> None:
    answers: list[tuple[int, str, bytes]] = []
    url = f"{source.uri}pool/slow.deb"
    threads = [threading.Thread(target=lambda: answers.append(fetched(port, url))) for _ in range(12)]
    for one in threads:
        one.start()
    source.release.set()
    for one in threads:
        one.join(30)
    assert [(status, content == BODY) for status, _, content in answers] == [(200, True)] * 12
    assert source.asked == {"/debian/pool/slow.deb": 1}


def test_a_file_when_it_is_fetched_then_its_beginning_is_passed_on_before_its_end_is_there(
    source: Source, port: int
) -> None:
    with socket.create_connection((HERE, port), 30) as connection:
        connection.sendall(f"GET {source.uri}slow HTTP/1.1\r\n\r\n".encode())
        data = b""
        while len(data.partition(b"\r\n\r\n")[2]) < 1000:
            data += connection.recv(4096)
        assert not source.release.is_set()
        assert data.endswith(BODY[:1000])


def test_requests_when_they_come_before_the_first_is_answered_then_all_are_answered_in_order(
    source: Source, port: int
) -> None:
    with socket.create_connection((HERE, port), 30) as connection, connection.makefile("rb") as answers:
        names = ("one", "absent", "two")
        connection.sendall("".join(f"GET {source.uri}{name} HTTP/1.1\r\n\r\n" for name in names).encode())
        heads = []
        for name in names:
            head = b"".join(iter(answers.readline, b"\r\n")).decode()
            heads.append(head.split()[1])
            assert answers.read(0 if name == "absent" else len(BODY)) == (b"" if name == "absent" else BODY)
    assert heads == ["200", "404", "200"]


def test_a_file_that_is_as_old_as_the_asking_host_has_it_then_it_is_not_sent_again(source: Source, port: int) -> None:
    since = {"If-Modified-Since": "Fri, 27 Nov 2026 10:00:00 GMT"}
    assert fetched(port, f"{source.uri}InRelease", headers=since) == (304, "Not Modified", b"")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("http://169.254.169.254/latest/", "below no package source"),
        ("http://{source}/other/", "below no package source"),
        ("http://{source}/debian/../other/", "below no package source"),
        ("http://{source}/debian/%2e%2e/other", "below no package source"),
        ("http://{source}@169.254.169.254/debian/", "below no package source"),
        ("/first", "below no package source"),
        ("/", "below no package source"),
    ],
)
def test_an_address_that_is_below_no_package_source_then_it_is_refused_and_nobody_is_asked(
    source: Source, port: int, target: str, why: str
) -> None:
    status, reason, _ = fetched(port, target.format(source=source.address))
    assert (status, why in reason) == (403, True), reason
    assert not source.asked


def test_a_connection_to_a_server_that_is_no_source_with_https_then_it_is_refused(source: Source, port: int) -> None:
    assert fetched(port, source.address, "CONNECT")[:2] == (403, "this is no package source of the controller")


def test_a_connection_to_a_source_with_https_then_bytes_pass_in_both_directions(
    listening: Callable[..., Server], source: Source
) -> None:
    port = vars(listening(f"https://{source.address}/debian/"))["port"]
    assert fetched(port, "/first")[0] == 200
    with socket.create_connection((HERE, port), 30) as connection, connection.makefile("rb") as answers:
        connection.sendall(f"CONNECT {source.address} HTTP/1.1\r\n\r\n".encode())
        assert (answers.readline(), answers.readline()) == (b"HTTP/1.1 200 OK\r\n", b"\r\n")
        connection.sendall(b"GET /debian/absent HTTP/1.1\r\nHost: source\r\n\r\n")
        assert b"404" in answers.readline()


def test_a_stranger_who_shows_no_token_or_a_used_one_then_nothing_is_served(
    listening: Callable[..., Server], source: Source
) -> None:
    server = listening(source.uri)
    port = vars(server)["port"]
    for target in (f"{source.uri}InRelease", "/third", "/"):
        status, reason, _ = fetched(port, target)
        assert (status, reason) == (403, f"slurmfab serves hosts that it installs packages on, and {HERE} is none")
    assert fetched(port, "/first")[0] == 200
    server.members.clear()
    assert fetched(port, "/first")[0] == 403
    assert not source.asked


@pytest.mark.parametrize(
    "text",
    [
        "POST / HTTP/1.1",
        "GET /",
        "x" * 40_000,
        "GET / HTTP/1.1\r\nContent-Length: 5",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ],
)
def test_a_request_that_is_none_or_has_a_body_or_does_not_end_then_the_connection_is_closed(
    port: int, text: str
) -> None:
    with socket.create_connection((HERE, port), 30) as connection:
        connection.sendall(f"{text}\r\n\r\n".encode())
        answer = b""
        with suppress(ConnectionResetError):
            answer = connection.recv(4096)
            assert connection.recv(4096) == b""
        assert answer[:12] in (b"HTTP/1.1 400", b"")


def test_a_source_that_leads_elsewhere_then_that_is_fetched_but_never_from_this_host_or_its_link(
    source: Source, port: int
) -> None:
    source.places["/debian/near"] = f"http://{source.address}/other"
    source.places["/debian/file"] = "file:///etc/shadow"
    source.places["/debian/round"] = "/debian/round"
    assert "is redirected to 127.0.0.1, which is no package source" in fetched(port, f"{source.uri}near")[1]
    assert "is redirected to file:///etc/shadow" in fetched(port, f"{source.uri}file")[1]
    assert "/other" not in source.asked


def test_a_source_that_ends_in_the_middle_then_the_host_gets_no_whole_answer_and_the_next_try_asks_again(
    source: Source, port: int
) -> None:
    for _ in range(2):
        # The host is told, where the source has ended before the host got the first byte.
        with suppress(IncompleteRead):
            assert fetched(port, f"{source.uri}cut")[0] == 502
    assert source.asked["/debian/cut"] == 2


def test_a_source_that_does_not_answer_then_the_reason_is_told(listening: Callable[..., Server]) -> None:
    with socket.create_server((HERE, 0)) as taken:
        closed = taken.getsockname()[1]
    port = vars(listening(f"http://{HERE}:{closed}/"))["port"]
    assert fetched(port, "/first")[0] == 200
    status, reason, _ = fetched(port, f"http://{HERE}:{closed}/InRelease")
    assert (status, "the controller cannot fetch it: " in reason, "refused" in reason) == (502, True, True)


def test_more_than_there_is_room_for_then_what_came_first_is_forgotten_and_fetched_again(
    source: Source, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_cache, "MOST_BYTES", 2 * len(BODY))
    for name in ("a", "b", "c", "a"):
        assert fetched(port, source.uri + name)[2] == BODY
    assert source.asked["/debian/a"] == 2
    monkeypatch.setattr(proxy_cache, "MOST_BYTES", len(BODY) // 2)
    assert "no room in" in fetched(port, f"{source.uri}d")[1]


def test_a_proxy_of_the_sites_own_then_sources_are_asked_through_it(source: Source) -> None:
    settings = {"acquire::http::proxy": f"http://ann:word@{source.address}"}
    connection, reply = Upstream(settings).get("http://mirror.invalid/debian/InRelease")
    assert reply.read() == BODY
    connection.close()
    assert source.asked == {"http://mirror.invalid/debian/InRelease": 1}


def test_settings_of_apt_then_the_nearest_says_which_proxy_a_source_has() -> None:
    settings = {
        "acquire::http::proxy": "http://all:1",
        "acquire::http::proxy::local": "DIRECT",
        "acquire::https::proxy::far": "http://far:2",
    }
    places = [
        proxy_sources.proxy_of(settings, *one)
        for one in (("http", "a"), ("http", "Local"), ("https", "far"), ("https", "b"))
    ]
    assert places == ["http://all:1", "", "http://far:2", "http://all:1"]
    assert proxy_sources.proxy_of({"https_proxy": "http://env:3"}, "https", "a") == "http://env:3"


def asked(agent: Agent, **step: Any) -> dict[str, Any]:
    """The agent's answer to a step."""
    return next(line["proxy"] for line in agent.ask({"op": "proxy", **step}) if "proxy" in line)


def test_the_process_when_its_agent_is_killed_then_it_ends_and_nobody_listens(agent: Agent, source: Source) -> None:
    answer = asked(agent, do="listen", address=HERE, uris=[source.uri], tokens=["token"])
    assert source.uri in answer["uris"]
    assert fetched(answer["port"], "/token")[0] == 200
    assert fetched(answer["port"], f"{source.uri}InRelease")[2] == BODY
    agent.process.kill()
    deadline = time.monotonic() + 10
    while is_open(answer["port"]):
        assert time.monotonic() < deadline, "it listens still"


def is_open(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as one:
        return one.connect_ex((HERE, port)) == 0


def test_the_process_when_it_is_ended_then_it_tells_what_it_did_and_a_second_end_tells_nothing(
    agent: Agent, source: Source
) -> None:
    answer = asked(agent, do="listen", address=HERE, uris=[source.uri], tokens=["token"])
    fetched(answer["port"], "/token")
    for _ in range(3):
        fetched(answer["port"], f"{source.uri}InRelease")
    counts = {"fetched": 1, "fetched_bytes": len(BODY), "sent": 3, "sent_bytes": 3 * len(BODY)}
    assert (asked(agent, do="end"), asked(agent, do="end")) == (counts, {})


def test_an_address_that_the_host_does_not_have_then_the_reason_is_told(agent: Agent) -> None:
    answer = asked(agent, do="listen", address="192.0.2.1", uris=["http://mirror.invalid/"], tokens=[])
    assert answer["why"].startswith("it cannot listen at 192.0.2.1: ")


def test_the_usual_port_when_it_is_taken_then_another_one_is_used() -> None:
    with proxy.bound(HERE) as first, proxy.bound(HERE) as second:
        assert len({first.getsockname()[1], second.getsockname()[1]}) == 2
