"""What a connection is opened with, and how it is told that there is none."""

from __future__ import annotations

import contextlib
import hmac
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

import paramiko
import pytest
from ssh_keys import ED25519

from slurmfab.base.errors import (
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    InputError,
    LoginRefused,
    NameUnknown,
    Unreachable,
)
from slurmfab.commands.checks.shell import SshShell
from slurmfab.hosts import connection
from slurmfab.hosts.connection import (
    HUNG_UP,
    KEEPALIVE_SECONDS,
    NO_KEY,
    UNACKNOWLEDGED_SECONDS,
    OrderedChannel,
    connect,
    explained,
    load_key,
    login,
    undecided,
    without_delay,
)
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.remote_command import begin, finished, opened
from slurmfab.hosts.route import Route
from slurmfab.hosts.transport import SshStream

NOBODY = PinnedKey("n1", {})


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that is taken and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def hangs_up() -> Iterator[int]:
    """A port whose listener ends every connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def takes_all() -> Iterator[int]:
    """A port whose listener takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_where_nobody_listens_is_told_with_address_and_port(closed_port: int) -> None:
    with pytest.raises(Unreachable) as lost:
        connect(Route("n1", "127.0.0.1", "admin", closed_port), NOBODY)
    assert lost.value.host == "n1"
    assert f"nothing listens at 127.0.0.1 port {closed_port}" in lost.value.reason


def test_a_listener_that_speaks_no_ssh_is_told(hangs_up: int) -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        connect(Route("n1", "127.0.0.1", "admin", hangs_up), NOBODY)


def test_a_connection_that_ends_at_once_as_while_sshd_restarts_is_opened_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[socket.socket] = []

        def serve() -> None:
            listener.accept()[0].close()
            taken.append(listener.accept()[0])
            taken[0].sendall(b"SSH-2.0-later\r\n")
            taken[0].close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(Unreachable):
            connect(Route("n1", "127.0.0.1", "admin", listener.getsockname()[1]), NOBODY)
        thread.join(10)
    assert len(taken) == 1


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (paramiko.AuthenticationException("no"), LoginRefused, "refused the login of admin with"),
        (socket.gaierror(-2, "Name or service not known"), NameUnknown, "the name 10.0.0.1 does not resolve"),
        (ConnectionRefusedError(), Unreachable, "nothing listens at 10.0.0.1 port 22"),
        (TimeoutError(), Unreachable, "no answer from 10.0.0.1 port 22 within 10 s"),
        (paramiko.SSHException("Error reading SSH protocol banner"), Unreachable, "sends no SSH banner"),
        (EOFError(), Unreachable, "sends no SSH banner"),
        (OSError(113, "No route to host"), Unreachable, "No route to host"),
        (ValueError(), Unreachable, "ValueError"),
    ],
)
def test_a_failed_connection_is_told_in_words(error: Exception, kind: type, words: str) -> None:
    told = explained(error, Route("n1", "10.0.0.1", "admin"))
    assert type(told) is kind
    assert str(told).startswith("n1: ")
    assert words in told.reason


def test_a_host_that_goes_by_its_address_when_it_is_off_then_that_is_told_once() -> None:
    told = explained(ConnectionRefusedError(), Route("10.0.0.1", "10.0.0.1", "admin"))
    assert str(told).startswith("10.0.0.1: nothing listens at its port 22.")


@pytest.mark.parametrize(
    ("route", "offered"),
    [
        (Route("n1", "n1", "admin", key="/k/one"), "the key /k/one"),
        (Route("n1", "n1", "admin", keys=("/k/a", "/k/b")), "the keys of the SSH agent and /k/a, /k/b"),
        (Route("n1", "n1", "admin"), "the keys of the SSH agent and the default keys"),
    ],
)
def test_a_refused_login_names_what_was_offered(route: Route, offered: str) -> None:
    assert offered in explained(paramiko.AuthenticationException(), route).reason


ROOT, ANN = Route("n1", "10.0.0.1", "root"), Route("n1", "10.0.0.1", "ann")
CLOSED = paramiko.AuthenticationException(f"Authentication failed: {HUNG_UP}")


@pytest.mark.parametrize(
    ("error", "route", "words", "others"),
    [
        (paramiko.AuthenticationException(), ANN, "If it is there already, sshd refuses it or the user", "PermitRoot"),
        (paramiko.AuthenticationException(), ROOT, "or sshd lets root in never (PermitRootLogin no)", "AllowUsers"),
        (
            paramiko.BadAuthenticationType("", ["password"]),
            ANN,
            "takes no keys from this user, only password",
            "copy-id",
        ),
        (
            CLOSED,
            ANN,
            "It said: back at 9. Either it lets nobody in or this account is closed (/etc/nologin",
            "copy-id",
        ),
    ],
)
def test_a_refused_login_when_sshd_lets_causes_be_told_apart_then_each_has_its_own_words(
    error: Exception, route: Route, words: str, others: str
) -> None:
    told = explained(error, route, "back\nat 9.\n")
    assert type(told) is LoginRefused
    assert words in told.reason
    assert others not in told.reason


def test_a_login_without_any_key_is_told_with_how_to_name_or_make_one() -> None:
    told = explained(paramiko.SSHException("No authentication methods available"), Route("n1", "10.0.0.1", "admin"))
    assert type(told) is LoginRefused
    assert "there is no SSH key for the login at 10.0.0.1 port 22: none in an SSH agent, none in ~/.ssh." in told.reason
    assert "--key" in told.reason
    assert "ssh-keygen -t ed25519" in told.reason
    assert told.reason.endswith("ssh-copy-id admin@10.0.0.1.")


def test_the_command_for_a_public_key_names_the_port() -> None:
    told = explained(paramiko.AuthenticationException(), Route("n1", "10.0.0.1", "admin", port=2222))
    assert "ssh-copy-id -p 2222 admin@10.0.0.1" in told.reason


def test_keys_with_a_passphrase_and_no_agent_are_told() -> None:
    told = explained(paramiko.PasswordRequiredException(), Route("n1", "10.0.0.1", "admin"))
    assert (type(told), "ssh-add" in told.reason) == (LoginRefused, True)


class Server(paramiko.ServerInterface):
    """An sshd that lets nobody in."""

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"


def test_paramiko_when_there_is_no_key_says_what_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        ours = socket.create_connection(("127.0.0.1", port))
        server = paramiko.Transport(listening.accept()[0])
        server.add_server_key(paramiko.ECDSAKey.generate())
        server.start_server(event=threading.Event(), server=Server())
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.MissingHostKeyPolicy())
        with ours, pytest.raises(paramiko.SSHException, match=NO_KEY):
            client.connect("127.0.0.1", port, "admin", sock=ours)
        client.close()
        server.close()


def test_a_key_of_the_cluster_files_is_offered_alone(tmp_path: Path) -> None:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    arguments = login(Route("n1", "n1", "admin", key=str(tmp_path / "key")), NOBODY)
    assert (arguments["allow_agent"], arguments["look_for_keys"]) == (False, False)
    assert arguments["pkey"].get_name().startswith("ecdsa")


def test_keys_of_ssh_config_are_offered_beside_the_agents_and_may_have_a_passphrase(tmp_path: Path) -> None:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"), password="secret")
    arguments = login(Route("n1", "n1", "admin", keys=(str(tmp_path / "key"),)), NOBODY)
    assert arguments["key_filename"] == [str(tmp_path / "key")]
    assert (arguments["allow_agent"], arguments["look_for_keys"], "pkey" in arguments) == (True, False, False)


def test_without_any_key_the_agents_and_the_default_ones_are_offered() -> None:
    arguments = login(Route("n1", "n1", "admin"), NOBODY)
    assert (arguments["allow_agent"], arguments["look_for_keys"]) == (True, True)


def test_a_host_may_show_only_keys_of_pinned_types() -> None:
    arguments = login(Route("n1", "n1", "admin"), PinnedKey("n1", {"ssh-ed25519": ED25519}))
    assert "rsa-sha2-512" in arguments["disabled_algorithms"]["keys"]
    assert "ssh-ed25519" not in arguments["disabled_algorithms"]["keys"]


def test_a_key_that_is_missing_or_encrypted_or_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The private key .* does not exist"):
        load_key(str(tmp_path / "missing"))
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "encrypted"), password="secret")
    with pytest.raises(InputError, match="has a passphrase"):
        load_key(str(tmp_path / "encrypted"))
    (tmp_path / "text").write_text("this is no key\n")
    with pytest.raises(InputError, match="cannot be used as a private key"):
        load_key(str(tmp_path / "text"))
    with pytest.raises(InputError, match="cannot be used as a private key"):
        load_key(str(tmp_path))


@pytest.mark.parametrize("name", ["key", "key-cert.pub"])
def test_a_key_that_is_a_pipe_or_has_no_end_is_told_and_nobody_waits(tmp_path: Path, name: str) -> None:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="it is not a regular file"):
        load_key(str(tmp_path / "key"))
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match="it is not a regular file"):
        load_key(str(tmp_path / "key"))


def test_codes_of_messages_are_compared_by_a_function_of_python_itself() -> None:
    assert vars(paramiko.packet)["util"].constant_time_bytes_eq is hmac.compare_digest


def test_a_host_that_vanishes_is_noticed_within_20_s() -> None:
    assert KEEPALIVE_SECONDS + UNACKNOWLEDGED_SECONDS <= 20


class OpenServer(Server):
    """An sshd that lets everybody in, and notes who came and the requests of the connection."""

    def __init__(self) -> None:
        self.host_key = paramiko.ECDSAKey.generate()
        self.users: list[str] = []
        self.requests: queue.SimpleQueue[str] = queue.SimpleQueue()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        self.users.append(username)
        return paramiko.common.AUTH_SUCCESSFUL

    def check_global_request(self, kind: str, msg: paramiko.Message) -> bool:  # noqa: ARG002
        self.requests.put(kind)
        return False


class ClosedServer(Server):
    """An sshd that sends a text and ends the connection at the login, as for /etc/nologin."""

    transport: paramiko.Transport

    def get_banner(self) -> tuple[str, str]:
        return "down for repair\r\n", "en-US"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        self.transport.close()
        return paramiko.common.AUTH_FAILED


def test_an_sshd_that_ends_the_connection_at_the_login_when_it_says_why_then_its_words_are_told(tmp_path: Path) -> None:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    sshd, host_key = ClosedServer(), paramiko.ECDSAKey.generate()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            sshd.transport = paramiko.Transport(listening.accept()[0])
            sshd.transport.add_server_key(host_key)
            sshd.transport.start_server(event=threading.Event(), server=sshd)

        threading.Thread(target=serve, daemon=True).start()
        route = Route("n1", "127.0.0.1", "ann", listening.getsockname()[1], key=str(tmp_path / "key"))
        with pytest.raises(LoginRefused, match=r"by ending the connection\. It said: down for repair\. Either"):
            connect(route, PinnedKey("n1", {host_key.get_name(): host_key.get_base64()}))


@pytest.fixture
def open_sshd(tmp_path: Path) -> Iterator[tuple[OpenServer, Route]]:
    """An sshd that serves one connection, and the way to it."""
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    sshd = OpenServer()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            server = paramiko.Transport(listening.accept()[0])
            server.add_server_key(sshd.host_key)
            server.start_server(event=threading.Event(), server=sshd)

        threading.Thread(target=serve, daemon=True).start()
        yield sshd, Route("n1", "127.0.0.1", "admin", listening.getsockname()[1], key=str(tmp_path / "key"))


def test_an_open_connection_gets_keepalives_while_nothing_is_asked_and_has_no_time_limit(
    open_sshd: tuple[OpenServer, Route], monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd, route = open_sshd
    monkeypatch.setattr(connection, "KEEPALIVE_SECONDS", 0.1)
    opened = connect(route, PinnedKey("n1", {sshd.host_key.get_name(): sshd.host_key.get_base64()}))
    assert sshd.users == ["admin"]
    assert [sshd.requests.get(timeout=60) for _ in range(2)] == ["keepalive@lag.net"] * 2
    for limit in (thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)):
        limit.join(connection.OPEN_SECONDS / 2)
        assert not limit.is_alive()
    opened.close()


def test_a_login_when_it_is_made_then_makes_no_classes_that_stay(open_sshd: tuple[OpenServer, Route]) -> None:
    _, route = open_sshd
    before = len(MutableMapping.__subclasses__())
    client = connect(route, PinnedKey("n1", {}, accept_new=True))
    try:
        assert len(MutableMapping.__subclasses__()) == before
    finally:
        client.close()


def test_a_host_with_another_key_than_the_pinned_one_gets_no_login(open_sshd: tuple[OpenServer, Route]) -> None:
    sshd, route = open_sshd
    other = paramiko.ECDSAKey.generate()
    with pytest.raises(HostKeyChanged):
        connect(route, PinnedKey("n1", {other.get_name(): other.get_base64()}))
    assert sshd.users == []


def test_a_host_without_a_pinned_key_gets_no_login(open_sshd: tuple[OpenServer, Route]) -> None:
    sshd, route = open_sshd
    with pytest.raises(HostKeyUnknown):
        connect(route, NOBODY)
    assert sshd.users == []


def test_a_listener_that_never_gets_to_the_end_of_a_login_is_given_up_in_time(
    takes_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "OPEN_SECONDS", 0.3)
    with pytest.raises(Unreachable, match=r"SSH login timed out: .* neither accepted nor refused admin"):
        connect(Route("n1", "127.0.0.1", "admin", takes_all), NOBODY)


def test_a_login_that_hangs_is_not_taken_for_a_refusal() -> None:
    told = undecided(Route("n1", "10.0.0.1", "admin"))
    assert type(told) is Unreachable
    assert "a user database (LDAP)" in told.reason


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("Timeout opening channel.", id="none answers"),
        pytest.param("Unable to open channel.", id="two are refused at once"),
    ],
)
def test_a_jump_host_that_gets_no_answer_is_told(words: str) -> None:
    told = explained(paramiko.SSHException(words), Route("n1", "10.0.0.1", "admin"))
    assert "its jump host cannot connect to 10.0.0.1 port 22 (no answer)" in told.reason


def test_small_packets_leave_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        without_delay(ours).close()
    with socket.socket() as tcp:
        transport = without_delay(tcp)
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNACKNOWLEDGED_SECONDS * 1000
        transport.close()


class SlowChannel(paramiko.Channel):
    """A channel that takes its time to send, as paramiko's does between its look at `closed` and the message."""

    def __init__(self) -> None:
        super().__init__(0)
        self.messages: list[str] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def send(self, data: bytes) -> int:  # type: ignore[override] # as of a socket
        self.begun.set()
        assert self.may_go_on.wait(10)
        self.messages.append("data")
        return len(data)

    def close(self) -> None:
        self.messages.append("close")


def test_a_channel_through_another_host_when_it_is_closed_while_data_is_sent_then_the_data_goes_first() -> None:
    channel = SlowChannel()
    ordered = OrderedChannel(channel)
    sending = threading.Thread(target=ordered.send, args=(b"x",))
    closing = threading.Thread(target=ordered.close)
    sending.start()
    assert channel.begun.wait(10)
    closing.start()
    closing.join(0.05)
    channel.may_go_on.set()
    sending.join(10)
    closing.join(10)
    assert channel.messages == ["data", "close"]
    assert ordered.chanid == 0, "all else is the channel's own"


class FloodingServer(OpenServer):
    """An sshd that sends data without end, whatever the window, when its command gets input; `stderr`: as errors."""

    stderr = False
    size = 32768
    transport: paramiko.Transport

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:  # noqa: ARG002
        threading.Thread(target=self.flood, args=(channel,), daemon=True).start()
        return True

    def flood(self, channel: paramiko.Channel) -> None:
        """Send 256 MiB, or until the connection ends."""
        message = paramiko.Message()
        kind = paramiko.common.MSG_CHANNEL_EXTENDED_DATA if self.stderr else paramiko.common.MSG_CHANNEL_DATA
        message.add_byte(bytes([kind]))
        message.add_int(channel.remote_chanid)
        if self.stderr:
            message.add_int(1)
        message.add_string(bytes(self.size))
        send = vars(paramiko.Transport)["_send_user_message"]
        channel.recv(1)
        with contextlib.suppress(Exception):
            for _ in range((256 << 20) // self.size):
                send(self.transport, message)


@pytest.fixture
def flooding(tmp_path: Path) -> Iterator[tuple[FloodingServer, Callable[[], paramiko.SSHClient]]]:
    """A flooding sshd, and what connects to it."""
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    sshd = FloodingServer()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            sshd.transport = paramiko.Transport(listening.accept()[0])
            sshd.transport.add_server_key(sshd.host_key)
            sshd.transport.start_server(event=threading.Event(), server=sshd)

        threading.Thread(target=serve, daemon=True).start()
        route = Route("n1", "127.0.0.1", "admin", listening.getsockname()[1], key=str(tmp_path / "key"))
        yield sshd, lambda: connect(route, PinnedKey("n1", {}, accept_new=True))


Flooding = tuple[FloodingServer, Callable[[], paramiko.SSHClient]]


def flooded(client: paramiko.SSHClient) -> paramiko.Channel:
    """A channel whose server has flooded it while nobody read, until the connection ended."""
    channel = opened("n1", client, "true")
    channel.sendall(b"x")
    transport = connection.transport_of(client)
    transport.join(60)
    assert not transport.is_active()
    return channel


@pytest.mark.parametrize("stderr", [False, True])
def test_an_sshd_that_sends_while_nobody_reads_is_cut_off_after_the_window(flooding: Flooding, stderr: bool) -> None:
    sshd, connected = flooding
    sshd.stderr = stderr
    channel = flooded(connected())
    window = channel.in_window_size
    assert window < len(channel.in_buffer) + len(channel.in_stderr_buffer) <= window + 4 * sshd.size
    assert connection.excess(channel).startswith("it sent more than the ")


def test_an_sshd_whose_packet_is_as_long_as_no_packet_is_cut_off(flooding: Flooding) -> None:
    sshd, connected = flooding
    sshd.size = 8 << 20
    channel = flooded(connected())
    assert len(channel.in_buffer) == 0
    assert connection.excess(channel) == "it sent more than 512 KiB in one packet"


def test_a_command_whose_host_floods_is_told_with_what_the_host_did(flooding: Flooding) -> None:
    channel = flooded(flooding[1]())
    with pytest.raises(ConnectionLost, match=r"^n1: the connection was closed: it sent more than the [0-9]+ KiB"):
        begin("n1", channel, "", becomes=False)
    with pytest.raises(ConnectionLost, match="it sent more than the"):
        finished("n1", channel, b"", None, 1 << 30)


def test_an_agent_and_a_check_whose_host_floods_are_told_with_what_the_host_did(flooding: Flooding) -> None:
    sshd, connected = flooding
    client = connected()
    channel = flooded(client)
    stream, most = SshStream(channel), channel.in_window_size + 4 * sshd.size
    with pytest.raises(OSError, match="it sent more than the"):
        assert sum(len(stream.recv(1 << 20)) for _ in range(1 << 20)) < most
    with pytest.raises(Unreachable, match="it sent more than the"):
        SshShell("n1", client).run("true")


def test_a_listener_that_sends_a_line_without_end_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            taken = listening.accept()[0]
            with contextlib.suppress(OSError):
                while True:
                    taken.sendall(bytes(65536))

        threading.Thread(target=serve, daemon=True).start()
        route = Route("n1", "127.0.0.1", "admin", listening.getsockname()[1])
        with pytest.raises(Unreachable, match="it sent more than 512 KiB before SSH began"):
            connect(route, PinnedKey("n1", {}, accept_new=True))


def test_an_honest_host_whose_output_is_read_late_loses_nothing(open_sshd: tuple[OpenServer, Route]) -> None:
    """Its sshd keeps to the window, as paramiko's own server does."""
    sshd, route = open_sshd
    size = 12 << 20

    def answer(channel: paramiko.Channel, command: bytes) -> bool:  # noqa: ARG001
        threading.Thread(target=channel.sendall, args=(bytes(size),), daemon=True).start()
        return True

    sshd.check_channel_request = lambda *_: paramiko.common.OPEN_SUCCEEDED  # type: ignore[method-assign]
    sshd.check_channel_exec_request = answer  # type: ignore[method-assign]
    channel = opened("n1", connect(route, PinnedKey("n1", {}, accept_new=True)), "true")
    received, waiting = 0, threading.Event()
    while received < size:
        while len(channel.in_buffer) < min(size - received, channel.in_window_size // 2):
            assert channel.get_transport().is_active()
            waiting.wait(0.001)
        received += len(channel.recv(1 << 20))
    assert connection.excess(channel) == ""
