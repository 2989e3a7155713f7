"""The way by which apt's calls of a run get packages, with a real proxy."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import OK, Context, Outcome, apply
from slurmfab.on_hosts.agent.packages import apt, proxy_sources
from slurmfab.on_hosts.agent.packages.package_way import PackageWay
from slurmfab.on_hosts.agent.packages.proxy_cache import Cache
from slurmfab.on_hosts.agent.packages.proxy_server import Server
from slurmfab.on_hosts.agent.packages.proxy_upstream import Upstream

HERE = "127.0.0.1"
SERVED = ("http://mirror.example/debian/", "https://safe.example/debian/")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """apt without proxies of its own; afterwards its way is its own again."""
    monkeypatch.setattr(proxy_sources, "proxies", lambda _: {})
    yield
    apt.WAY.clear()


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a proxy."""
    server = Server(SERVED, ["token"], {}, Cache(Upstream({})))
    near, far = os.pipe()
    with socket.create_server((HERE, 0)) as listener:
        thread = threading.Thread(target=server.serve, args=(listener, near), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        os.close(far)
        thread.join(10)
        os.close(near)


def applied(root: Path, port: int, token: str = "token") -> Outcome:
    """What comes of it on a host."""
    return apply(PackageWay(HERE, port, token, SERVED), Context(str(root)))


def sources(root: Path, text: str) -> None:
    """Write apt's sources."""
    (root / "etc/apt").mkdir(exist_ok=True)
    (root / "etc/apt/sources.list").write_text(text)


def test_a_proxy_that_lets_this_host_in_then_apt_goes_through_it_to_the_servers_that_it_serves(
    root: Path, port: int
) -> None:
    sources(root, "deb http://mirror.example/debian trixie main\n")
    assert applied(root, port) == Outcome("package-way:proxy", OK)
    place = f"http://{HERE}:{port}"
    assert [word for word in apt.WAY if word != "-o"] == [
        f"Acquire::{scheme}::Proxy::{host}={place}"
        for host in ("mirror.example", "safe.example")
        for scheme in ("http", "https")
    ] + ["Acquire::Retries::Delay=false"]


def test_a_server_with_a_source_that_the_proxy_does_not_serve_then_apt_asks_it_itself(root: Path, port: int) -> None:
    lists = "deb http://mirror.example/debian trixie main\ndeb http://mirror.example/own trixie main\n"
    sources(root, lists + "deb http://elsewhere.example/ trixie main\n")
    assert applied(root, port).message == ""
    assert not any("mirror.example" in word or "elsewhere" in word for word in apt.WAY)
    assert any("safe.example" in word for word in apt.WAY)


def test_a_list_of_mirrors_in_a_file_then_its_addresses_are_the_sources(root: Path) -> None:
    sources(root, "deb mirror+file:/etc/apt/mirrors trixie main\ndeb cdrom:[x]/ trixie main\n")
    (root / "etc/apt/mirrors").write_text("# a list\nhttp://a.example/debian priority:1\n\nhttps://b.example/debian/\n")
    assert proxy_sources.uris(Context(str(root))) == ["http://a.example/debian/", "https://b.example/debian/"]


def test_a_source_with_a_password_then_no_proxy_serves_it(root: Path) -> None:
    sources(root, "deb https://ann:word@a.example/debian trixie main\n")
    assert proxy_sources.uris(Context(str(root))) == []


def test_a_proxy_of_the_sites_own_then_it_stays_and_nothing_is_said(
    root: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_sources, "proxies", lambda _: {"acquire::http::proxy": "http://site:3128"})
    assert (applied(root, port), apt.WAY) == (Outcome("package-way:proxy", OK), [])


def test_a_port_at_which_nobody_listens_then_the_own_way_is_taken_and_the_reason_is_a_remark(root: Path) -> None:
    with socket.create_server((HERE, 0)) as taken:
        closed = taken.getsockname()[1]
    outcome = applied(root, closed)
    assert outcome.status == OK
    assert outcome.message == (
        f"packages come by this host's own way: {HERE} port {closed}: Connection refused. To have them come through "
        "the controller, let this host in there"
    )
    assert apt.WAY == []


def test_a_proxy_that_refuses_this_host_then_the_own_way_is_taken(root: Path, port: int) -> None:
    assert "it answers 'HTTP/1.1 403 slurmfab serves hosts" in applied(root, port, "another").message
    assert apt.WAY == []
