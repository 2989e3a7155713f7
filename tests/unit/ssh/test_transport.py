"""Asking hosts: the real agent in a local process, one SSH exec per host, and many hosts at once."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from local_transport import LocalTransport

from slurmfab.base.errors import AgentFailed, ConnectionLost, PythonMissing, SudoPasswordNeeded, Unreachable
from slurmfab.hosts import connection as ssh_connection
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.route import Route
from slurmfab.hosts.session import GREETING, SUDO_PROMPT
from slurmfab.hosts.transport import (
    OTHER_FILES,
    PROXIES,
    SILENCE_SECONDS,
    Ends,
    SshStream,
    SshTransport,
    allow_connections,
    closed_after,
)
from slurmfab.on_hosts.agent.core.lifeline import SILENCE
from slurmfab.on_hosts.agent.core.resource import as_request
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import File

FACTS = {
    "op": "facts",
    "users": ["root"],
    "packages": [],
    "services": [],
    "with_munge_key": False,
    "with_slurm_conf": False,
}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalTransport]:
    transport = LocalTransport(str(tmp_path))
    yield transport
    transport.close()


@pytest.fixture
def this_machine() -> Iterator[LocalTransport]:
    transport = LocalTransport()
    yield transport
    transport.close()


def owned_by_me(root: Path) -> tuple[str, str]:
    """Names of a user and a group that are whoever runs the tests, in a scratch root."""
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(f"me:x:{os.getuid()}:{os.getgid()}::/:/bin/sh\n")
    (root / "etc/group").write_text(f"me:x:{os.getgid()}:\n")
    return "me", "me"


def apply(transport: LocalTransport, *resources: Any, dry_run: bool = False) -> list[str]:
    request = {"op": "apply", "dry_run": dry_run, "who": "a test", "resources": [as_request(one) for one in resources]}
    return [line["outcome"]["status"] for line in transport.call("n1", request)]


@pytest.mark.needs_root("the agent tells facts to root alone")
def test_the_real_agent_tells_facts_of_this_machine(this_machine: LocalTransport) -> None:
    (line,) = this_machine.call("n1", FACTS)
    assert line["facts"]["hostname"] == os.uname().nodename.split(".")[0]
    assert line["facts"]["accounts"]["root"]["uid"] == 0
    assert line["facts"]["hardware"]["CPUs"] >= 1


def test_the_real_agent_applies_a_file_and_the_second_time_touches_nothing(
    local: LocalTransport, tmp_path: Path
) -> None:
    owner, group = owned_by_me(tmp_path)
    wanted = (Directory("/etc/slurm", owner, group, 0o755), File("/etc/slurm/slurm.conf", "A=1\n", owner, group, 0o640))
    assert apply(local, *wanted, dry_run=True) == ["would change", "would change"]
    assert not (tmp_path / "etc/slurm").exists()
    assert apply(local, *wanted) == ["changed", "changed"]
    made = tmp_path / "etc/slurm/slurm.conf"
    before = made.stat()
    assert (made.read_text(), before.st_mode & 0o777) == ("A=1\n", 0o640)
    assert apply(local, *wanted) == ["ok", "ok"]
    after = made.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_ino) == (
        before.st_mtime_ns,
        before.st_ctime_ns,
        before.st_ino,
    )


def test_one_agent_serves_all_requests_to_a_host(local: LocalTransport) -> None:
    local.call("n1", FACTS)
    session = local.sessions["n1"]
    local.call("n1", FACTS)
    assert local.sessions == {"n1": session}


class Channel:
    """A channel of a connection that behaves like a host with sudo."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.status_event = threading.Event()
        self.inbox = SUDO_PROMPT.encode() if password else GREETING

    def sendall(self, data: bytes) -> None:
        if self.inbox == b"" and data == self.password.encode() + b"\n":
            self.inbox = GREETING
        elif data.startswith(b'{"', data.find(b"\n") + 1):
            self.inbox = b'{"facts": {}}\n{"done": true}\n'

    def send(self, data: bytes) -> int:
        self.sendall(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        data, self.inbox = self.inbox[:size], self.inbox[size:]
        return data

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds

    def get_transport(self) -> Connection:
        return Connection()

    def set_combine_stderr(self, combined: bool) -> None: ...

    def exec_command(self, command: str) -> None:  # noqa: ARG002
        self.status_event.set()

    def recv_exit_status(self) -> int:
        return 1

    def close(self) -> None: ...


class Connection:
    """An open connection whose channels run on such a host."""

    def __init__(self, password: str = "", broken: Exception | None = None) -> None:
        self.password, self.broken = password, broken

    def get_transport(self) -> Connection:
        return self

    def is_active(self) -> bool:
        return True

    def open_session(self, timeout: float) -> Channel:
        assert timeout > 0
        if self.broken:
            raise self.broken
        return Channel(self.password)

    def close(self) -> None: ...


def behind_ssh(hosts: dict[str, Connection], become: bool, **more: Any) -> SshTransport:
    """A transport whose connections are open already."""
    routes = {host: Route(host, host, "admin", become=become) for host in hosts}
    transport = SshTransport(routes, {}, **more)
    transport.connections.update(hosts)
    return transport


def test_a_host_is_given_one_exec_for_all_requests() -> None:
    transport = behind_ssh({"n1": Connection()}, become=False)
    for _ in range(3):
        assert transport.call("n1", FACTS) == ({"facts": {}},)
    assert transport.execs == {"n1": 1}


def test_the_sudo_password_is_asked_for_once_for_all_hosts() -> None:
    questions: list[str] = []

    def ask() -> str:
        questions.append("password?")
        return "secret"

    transport = behind_ssh({f"n{number}": Connection("secret") for number in range(8)}, become=True, ask_password=ask)
    answers = dict(on_each(transport.routes, lambda host: transport.call(host, FACTS)))
    assert list(answers.values()) == [({"facts": {}},)] * 8
    assert len(questions) == 1


def test_a_user_who_gives_no_password_is_not_asked_again() -> None:
    questions: list[str] = []

    def ask() -> str:
        questions.append("password?")
        return ""

    transport = behind_ssh({"n1": Connection("secret"), "n2": Connection("secret")}, become=True, ask_password=ask)
    for host in ("n1", "n2"):
        with pytest.raises(SudoPasswordNeeded):
            transport.call(host, FACTS)
    assert len(questions) == 1


@pytest.mark.parametrize("broken", [EOFError(), OSError("gone"), paramiko.SSHException("prohibited")])
def test_a_connection_that_runs_no_command_is_one_hosts_error(broken: Exception) -> None:
    transport = behind_ssh({"n1": Connection(broken=broken)}, become=False)
    with pytest.raises(AgentFailed) as failed:
        transport.call("n1", FACTS)
    assert (str(broken) or "EOFError") in failed.value.reason


class Answering(Channel):
    """A channel whose agent gives this answer to its first request and ends."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("")
        self.inbox = GREETING + answer

    def sendall(self, data: bytes) -> None: ...


class OneAgent(Connection):
    """A connection on which one agent is started, with this answer."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.channels = [Answering(answer)]
        self.is_closed = False

    def open_session(self, timeout: float) -> Channel:  # noqa: ARG002
        return self.channels.pop()

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("last", [b'{"error": "out of memory"}\n{"done": true}\n', b""], ids=["failed", "lost"])
def test_an_agent_that_failed_or_was_lost_is_not_asked_again(last: bytes) -> None:
    connection = OneAgent(last)
    transport = behind_ssh({"n1": connection}, become=False)
    with pytest.raises((AgentFailed, ConnectionLost)):
        transport.call("n1", FACTS)
    assert connection.is_closed
    transport.connections["n1"] = OneAgent(b'{"facts": {}}\n{"done": true}\n')
    assert transport.call("n1", FACTS) == ({"facts": {}},)


def test_a_host_on_which_no_agent_starts_has_its_channel_closed() -> None:
    class Closing(Answering):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    connection = OneAgent(b"")
    (channel,) = connection.channels = [Closing(b"")]
    channel.inbox = b"sh: 1: exec: python3: not found\n"
    with pytest.raises(PythonMissing):
        behind_ssh({"n1": connection}, become=False).call("n1", FACTS)
    assert channel.is_closed


def test_a_jump_host_that_cannot_be_used_is_tried_once_for_all_hosts_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuse(route: Route, *_: object) -> None:
        tried.append(route.host)
        raise Unreachable(route.host, "nothing listens.")

    monkeypatch.setattr(ssh_connection, "connect", refuse)
    jump = Route("bastion", "10.0.0.9", "admin")
    routes = {f"n{number}": Route(f"n{number}", f"10.0.0.{number}", "admin", gateway=jump) for number in range(1, 4)}
    transport = SshTransport(routes, {host: PinnedKey(host, {}) for host in routes})
    for host in routes:
        with pytest.raises(Unreachable, match="the jump host cannot be used: nothing listens"):
            transport.call(host, FACTS)
    assert tried == ["bastion"]


def test_closing_closes_jump_hosts_after_the_hosts_behind_them() -> None:
    closed: list[str] = []

    class Noting(Connection):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def close(self) -> None:
            closed.append(self.name)

    transport = behind_ssh({"n1": Noting("n1")}, become=False)
    transport.gateways[Route("bastion", "10.0.0.9", "admin")] = Noting("bastion")
    transport.close()
    assert closed == ["n1", "bastion"]


class Installer(Channel):
    """A channel on which a command ends with this exit code and these last words."""

    def __init__(self, code: int, words: bytes = b"") -> None:
        super().__init__("")
        self.code, self.inbox = code, words

    def recv_exit_status(self) -> int:
        return self.code


class Installing(Connection):
    def __init__(self, channel: Installer) -> None:
        super().__init__()
        self.channel = channel

    def open_session(self, timeout: float) -> Channel:  # noqa: ARG002
        return self.channel


@pytest.mark.parametrize(
    ("channel", "words"),
    [(Installer(69), "neither python3 nor apt-get"), (Installer(100, b"x\nE: no disk\n"), "E: no disk")],
)
def test_a_host_on_which_python3_cannot_be_installed_says_why(channel: Installer, words: str) -> None:
    with pytest.raises(PythonMissing, match=words):
        behind_ssh({"n1": Installing(channel)}, become=True).install_python("n1")


@pytest.mark.parametrize("words", [b"", b"\n\nSetting up python3\n"])
def test_a_connection_that_falls_silent_while_python3_is_installed_is_lost(words: bytes) -> None:
    class Silent(Installer):
        def recv(self, size: int) -> bytes:
            assert self.timeout == SILENCE_SECONDS
            if not self.inbox:
                raise TimeoutError
            return super().recv(size)

    with pytest.raises(
        ConnectionLost, match=f"the connection was lost while apt-get installed it: no data for {SILENCE_SECONDS} s"
    ):
        behind_ssh({"n1": Installing(Silent(0, words))}, become=False).install_python("n1")


@pytest.mark.parametrize("is_active", [True, False])
def test_an_end_that_came_with_the_connections_end_is_told_from_the_end_of_a_command(is_active: bool) -> None:
    class Broken(Connection):
        def is_active(self) -> bool:
            return is_active

    class Ended(Channel):
        def get_transport(self) -> Connection:
            return Broken()

    channel = Ended("")
    stream = SshStream(channel)  # type: ignore[arg-type]
    assert stream.recv(1000) == GREETING
    if is_active:
        assert stream.recv(1000) == b""
    else:
        with pytest.raises(OSError, match="the host or the network to it is down"):
            stream.recv(1000)


@pytest.mark.parametrize(
    ("window", "has_keys", "has_room"),
    [(2097152, True, True), (1, True, False), (0, True, False), (2097152, False, False)],
)
def test_a_heartbeat_when_the_host_reads_nothing_or_negotiates_keys_then_is_not_waited_for(
    window: int, has_keys: bool, has_room: bool
) -> None:
    class Reading(Connection):
        clear_to_send = threading.Event()

    class Deaf(Channel):
        out_window_size = window

        def get_transport(self) -> Connection:
            return Reading()

    if has_keys:
        Reading.clear_to_send.set()
    assert SshStream(Deaf("")).has_room() == has_room  # type: ignore[arg-type]


def test_agents_get_signs_of_life_from_the_first_session_until_the_transport_is_closed() -> None:
    transport = behind_ssh({"n1": Connection()}, become=False)
    assert transport.heartbeat.thread.ident is None
    transport.call("n1", FACTS)
    assert transport.heartbeat.thread.is_alive()
    assert transport.heartbeat.seconds * 3 < min(SILENCE_SECONDS, SILENCE)
    transport.close()
    transport.heartbeat.thread.join(10)
    assert not transport.heartbeat.thread.is_alive()


@pytest.mark.parametrize("code", [0, 100])
def test_the_channel_on_which_python3_was_installed_is_closed(code: int) -> None:
    class Closing(Installer):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    channel = Closing(code)
    with contextlib.suppress(PythonMissing):
        behind_ssh({"n1": Installing(channel)}, become=False).install_python("n1")
    assert channel.is_closed


def test_python3_is_installed_in_silence() -> None:
    transport = behind_ssh({"n1": Installing(Installer(0))}, become=False)
    transport.install_python("n1")
    assert transport.execs == {"n1": 1}


def test_closing_leaves_no_connection(local: LocalTransport) -> None:
    local.call("n1", FACTS)
    process = vars(local.sessions["n1"].stream)["process"]
    local.close()
    assert process.returncode == 0
    transport = behind_ssh({"n1": Connection()}, become=False)
    transport.close()
    assert transport.connections == {}


def test_proxy_commands_when_there_are_many_hosts_then_run_a_few_at_a_time(tmp_path: Path) -> None:
    here, counts = tmp_path / "here", tmp_path / "counts"
    here.mkdir()
    # Each tells how many of them are there, itself included, and ends soon, so that nobody gets a connection.
    command = f"sh -c 'touch {here}/$$; ls {here} | wc -l >>{counts}; sleep 0.1; rm {here}/$$'"
    hosts = {
        f"n{number}": Route(f"n{number}", "10.0.0.1", "admin", proxy_command=command) for number in range(PROXIES + 4)
    }
    transport = SshTransport(hosts, {host: PinnedKey(host, {}) for host in hosts})
    answers = dict(on_each(hosts, transport.connection))
    assert all(isinstance(answer, Unreachable) for answer in answers.values())
    found = [int(count) for count in counts.read_text().split()]
    assert len(found) == len(hosts)
    assert 1 < max(found) <= PROXIES


def test_a_server_that_never_answers_when_a_command_is_started_then_its_channel_is_closed_in_time() -> None:
    class Waiting(Channel):
        def __init__(self) -> None:
            super().__init__("")
            self.is_closed = threading.Event()

        def close(self) -> None:
            self.is_closed.set()

    quick, slow = Waiting(), Waiting()
    with closed_after(3600, quick):  # type: ignore[arg-type]
        pass
    with closed_after(0.01, slow):  # type: ignore[arg-type]
        assert slow.is_closed.wait(10)
    assert not quick.is_closed.is_set()


@pytest.mark.parametrize("error", [paramiko.SSHException("Key-exchange timed out"), EOFError(), IndexError("x")])
def test_an_error_that_a_server_causes_in_paramiko_when_a_command_is_started_then_it_is_that_hosts(
    error: Exception,
) -> None:
    with pytest.raises(AgentFailed, match=r"^n1: SSH login succeeded, but the server refused to start a command"):
        behind_ssh({"n1": Connection(broken=error)}, become=False).call("n1", FACTS)


def test_keys_that_a_server_negotiates_without_end_when_a_request_is_sent_then_the_connection_counts_as_broken() -> (
    None
):
    class Negotiating(Channel):
        def send(self, data: bytes) -> int:  # noqa: ARG002
            raise paramiko.SSHException("Key-exchange timed out waiting for key negotiation")

    with pytest.raises(OSError, match="Key-exchange timed out"):
        SshStream(Negotiating("")).sendall(b"x")  # type: ignore[arg-type]


@dataclass
class Opened:
    """An open connection, as far as its socket."""

    sock: object

    def get_transport(self) -> Opened:
        return self


@pytest.fixture
def direct() -> Iterator[Opened]:
    """A TCP connection of this machine to itself."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        yield Opened(sock)


def ends(route: Route, **connections: Any) -> Ends:
    """The ends of the connection to n1 by a route, with these open connections: `host` and `gateway`."""
    transport = SshTransport({"n1": route}, {})
    transport.connections = {"n1": connections["host"]} if "host" in connections else {}
    transport.gateways = {route.gateway: connections["gateway"]} if "gateway" in connections and route.gateway else {}
    return transport.ends("n1")


def test_the_ends_of_a_connection_are_those_of_its_socket_and_of_the_jump_hosts(direct: Opened) -> None:
    by_name, tunnel = Route("n1", "n1.example.org", "root"), Opened(object())
    assert ends(by_name, host=direct) == Ends("127.0.0.1", ("127.0.0.1",))
    assert ends(by_name) == Ends("", ())
    assert ends(replace(by_name, proxy_command="nc %h"), host=tunnel) == Ends("", ())
    behind = replace(by_name, gateway=Route("bastion", "bastion.example.org", "root"))
    assert ends(behind, host=tunnel, gateway=direct) == Ends("", ("127.0.0.1",))
    given = replace(behind, address="FD83:0::11", gateway=Route("bastion", "192.0.2.7", "root"))
    assert ends(given, host=tunnel, gateway=tunnel) == Ends("fd83::11", ("192.0.2.7",))


def test_connections_to_more_hosts_than_files_may_be_open_when_planned_then_the_limit_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 600
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        allow_connections(few - OTHER_FILES)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few
        allow_connections(few)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few + OTHER_FILES, before[1])
        allow_connections(before[1])
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
