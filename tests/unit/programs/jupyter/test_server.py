"""A user's server in a job: its port is told once a socket of the user's own listens on it."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from slurmfab.on_hosts.programs.jupyter import server

LISTENER = "import socket; s = socket.create_server(('', int({!r}))); print(flush=True); input()"


def test_a_port_when_others_are_taken_then_is_a_free_one() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="is free"):
            server.free_port(port, port)
        assert server.free_port(port, port + 20) != port


def test_a_server_when_its_user_listens_then_is_up() -> None:
    port = server.free_port(28000, 28999)
    assert not server.is_own(port)
    child = subprocess.Popen(
        [sys.executable, "-c", LISTENER.format(str(port))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert server.is_up(child, port)
        child.communicate(b"\n")
    assert not server.is_up(child, port), "it has ended"


def test_a_server_is_told_its_address_and_ends_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann/")
    found = server.environment("0.0.0.0", 28001)
    assert found["JUPYTERHUB_SERVICE_URL"] == "http://0.0.0.0:28001/user/ann/"
    assert "--MappingKernelManager.cull_idle_timeout=60" in server.command(60)
    assert "--MappingKernelManager.cull_interval=30" in server.command(60)
