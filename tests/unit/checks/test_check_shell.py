"""A shell over SSH: both streams, exit codes, deadlines, and sudo's question answered only where it is asked."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest

from slurmfab.base.errors import BecomeRefused, LoginRefused, SudoPasswordNeeded, SudoPasswordWrong, Unreachable
from slurmfab.commands.checks import exchange, shell
from slurmfab.commands.checks.shell import PROMPT, READY, SECONDS, CommandResult, NoAnswer, SshShell, TooSlow

SUDO = """#!/bin/sh
while [ "$1" != -- ]; do if [ "$1" = -p ]; then prompt=$2; fi; shift; done; shift
{words}
exec "$@"
"""
"""A sudo; `words` is what it does before it runs the command."""

ASKS = 'printf %s "$prompt" | sed s/%%/%/ >&2; IFS= read -r word; test "$word" = secret || {{ {else_}; }}'
"""Asks for a password."""


class Channel:
    """An SSH channel to a login shell on this machine."""

    def __init__(self, login_shell: str = "sh") -> None:
        self.login_shell = login_shell
        self.command = ""
        self.sent = b""
        self.patience: float | None = None
        self.status_event = threading.Event()
        self.exit_status = -1

    def settimeout(self, seconds: float | None) -> None:
        self.patience = seconds

    def exec_command(self, command: str) -> None:
        self.command = command
        self.program = subprocess.Popen(
            ["sh", "-c", self.login_shell, "sh", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        threading.Thread(target=self.wait, daemon=True).start()

    def wait(self) -> None:
        self.exit_status = self.program.wait()
        self.status_event.set()

    def sendall(self, data: bytes) -> None:
        self.sent += data
        assert self.program.stdin is not None
        self.program.stdin.write(data)

    def recv(self, size: int) -> bytes:
        return self.read(self.program.stdout, size)

    def recv_stderr(self, size: int) -> bytes:
        return self.read(self.program.stderr, size)

    def read(self, stream: Any, size: int) -> bytes:
        if not select.select([stream], [], [], self.patience)[0]:
            raise TimeoutError
        return os.read(stream.fileno(), size)

    def close(self) -> None:
        assert self.program.stdin is not None
        self.program.stdin.close()
        self.program.kill()


class Host:
    """A host that is this machine, and what was opened to it.

    Args:
        login_shell: script that runs its first argument, as a login shell does.
    """

    def __init__(self, login_shell: str = 'exec sh -c "$1"', **options: Any) -> None:
        self.channels: list[Channel] = []
        self.login_shell = login_shell
        transport = SimpleNamespace(open_session=self.open_session, is_active=lambda: True)
        self.shell = SshShell("n1", SimpleNamespace(get_transport=lambda: transport), **options)

    def open_session(self, **_: float) -> Channel:
        self.channels.append(Channel(self.login_shell))
        return self.channels[-1]


MakeHost = Callable[..., Host]


@pytest.fixture
def made() -> Iterator[MakeHost]:
    """Makes hosts whose programs end with the test."""
    hosts: list[Host] = []

    def make(*arguments: Any, **options: Any) -> Host:
        hosts.append(Host(*arguments, **options))
        return hosts[-1]

    yield make
    for channel in (channel for host in hosts for channel in host.channels):
        channel.program.kill()


@pytest.fixture
def sudo(tmp_path: Path) -> Callable[[str], str]:
    """Makes a sudo that does this first; the result is a login shell that finds it."""

    def make(words: str) -> str:
        (tmp_path / "sudo").write_text(SUDO.format(words=words))
        (tmp_path / "sudo").chmod(0o755)
        return f'PATH={tmp_path}:$PATH; exec sh -c "$(printf %s "$1" | sed s#/usr/bin/sudo#sudo#)"'

    return make


def test_command_when_it_fills_both_streams_is_read_to_the_end(made: MakeHost) -> None:
    fill = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 3"
    assert made().shell.run(fill) == CommandResult(3, b"\0" * 3_000_000, b"\0" * 3_000_000)


@pytest.mark.parametrize(
    ("command", "stdin", "told"),
    [
        ("cat", "credential\n", CommandResult(0, b"credential\n")),
        ("cat", "", CommandResult(0)),
        ("true; cat; echo done", "x", CommandResult(0, b"xdone\n")),
        ("exec cat", "a\\nb%s\n\n'c'", CommandResult(0, b"a\\nb%s\n\n'c'")),
        ("true", "much" * 50_000, CommandResult(0)),
        ("printf '%s\\n' \"it's\n5 %\" '\\t'", "", CommandResult(0, b"it's\n5 %\n\\t\n")),
        ("echo no; exit 4", "", CommandResult(4, b"no\n")),
        ("cd /; umask 0; x=1; set -eu; false", "", CommandResult(1)),
        (
            "printf ends-without-a-line; echo why >&2; kill -9 $(sh -c 'echo $PPID')",
            "",
            CommandResult(137, b"ends-without-a-line", b"why\nKilled\n"),
        ),
    ],
)
def test_command_has_its_input_and_its_own_result_and_leaves_nothing_to_the_next(
    made: MakeHost, command: str, stdin: str, told: CommandResult
) -> None:
    host = made()
    before = host.shell.run("pwd; umask; set | grep -v _ | grep ^x")
    assert host.shell.run(command, stdin) == told
    assert host.shell.run("pwd; umask; set | grep -v _ | grep ^x") == before
    assert len(host.channels) == 1


def test_command_that_no_shell_can_read_is_an_error_of_its_own(made: MakeHost) -> None:
    host = made()
    assert host.shell.run("if (").code == 2
    assert host.shell.run("echo still").output == b"still\n"


def test_commands_at_the_same_time_have_shells_of_their_own(made: MakeHost) -> None:
    host = made()
    with ThreadPoolExecutor(max_workers=12) as pool:
        answers = list(pool.map(lambda number: host.shell.run(f"sleep 0.05; echo {number}").output, range(24)))
    assert answers == [f"{number}\n".encode() for number in range(24)]
    assert len(host.channels) <= 6


def test_command_when_it_never_ends_is_no_answer_in_time_and_the_next_one_has_a_new_shell(made: MakeHost) -> None:
    host = made()
    with pytest.raises(NoAnswer, match=r"n1: `sleep 99` gave no answer within 0 s\."):
        host.shell.run("sleep 99", seconds=0.3)
    assert host.shell.run("echo here").output == b"here\n"
    assert len(host.channels) == 2


def test_command_when_the_connection_breaks_is_an_unreachable_host(made: MakeHost) -> None:
    host = made()
    host.shell.run("true")
    host.channels[0].program.kill()
    with pytest.raises(Unreachable, match=r"n1: the connection was lost"):
        host.shell.run("true")


def test_output_of_start_files_before_a_command_is_no_output_of_it(made: MakeHost) -> None:
    host = made('echo Welcome; printf "no line end"; echo "stty: not a tty" >&2; exec sh -c "$1"')
    assert host.shell.run("uname; echo warning >&2") == CommandResult(0, b"Linux\n", b"warning\n")


def test_login_shell_that_ends_without_running_the_command_is_a_refused_login_in_its_own_words(made: MakeHost) -> None:
    host = made("echo This account is currently not available.; exit 1")
    with pytest.raises(LoginRefused, match=r"its login shell ends .*: This account is currently not available"):
        host.shell.run("uname")


def test_login_shell_that_prints_its_commands_prints_neither_the_mark_nor_the_question_for_a_password(
    made: MakeHost, sudo: Callable[[str], str]
) -> None:
    host = made(sudo("exit 1"), become=True, password="secret")
    with pytest.raises(BecomeRefused):
        host.shell.run("true")
    assert PROMPT.decode() not in host.channels[0].command
    assert READY.decode().strip() not in host.channels[0].command


def test_sudo_when_it_asks_gets_the_password_once_and_commands_only_their_input(
    made: MakeHost, sudo: Callable[[str], str]
) -> None:
    host = made(sudo(ASKS.format(else_="exit 1")), become=True, password="secret")
    for _ in range(2):
        assert host.shell.run("cat", "input") == CommandResult(0, b"input")
    assert "secret" not in host.channels[0].command
    assert host.channels[0].sent.count(b"secret") == 1
    assert host.shell.used_password


def test_sudo_when_it_does_not_ask_is_sent_no_password(made: MakeHost, sudo: Callable[[str], str]) -> None:
    host = made(sudo(":"), become=True, password="secret")
    assert host.shell.run("cat", "input").output == b"input"
    assert b"secret" not in host.channels[0].sent


def test_sudo_when_it_asks_and_no_password_is_known_says_how_to_give_one(
    made: MakeHost, sudo: Callable[[str], str]
) -> None:
    with pytest.raises(SudoPasswordNeeded, match="--ask-sudo-password"):
        made(sudo(ASKS.format(else_="exit 1")), become=True).shell.run("true")


def test_sudo_when_it_asks_twice_has_refused_the_password(made: MakeHost, sudo: Callable[[str], str]) -> None:
    again = 'printf %s "$prompt" | sed s/%%/%/ >&2; read -r word'
    with pytest.raises(SudoPasswordWrong, match="does not accept the password") as caught:
        made(sudo(ASKS.format(else_=again)), become=True, password="wrong word").shell.run("true")
    assert "wrong word" not in str(caught.value)


def test_sudo_when_it_refuses_is_told_in_its_own_words(made: MakeHost, sudo: Callable[[str], str]) -> None:
    refuses = sudo("echo admin is not in the sudoers file. >&2; exit 1")
    with pytest.raises(BecomeRefused, match="sudo refused: admin is not in the sudoers file"):
        made(refuses, become=True).shell.run("true")


def test_session_when_sshd_counts_too_many_is_opened_a_little_later(made: MakeHost) -> None:
    host = made()
    transport, refused = host.shell.connection.get_transport(), []

    def open_session(**_: float) -> Channel:
        if not refused:
            refused.append(True)
            raise paramiko.ChannelException(2, "Connect failed")
        return host.open_session()

    transport.open_session = open_session
    assert host.shell.run("true").code == 0


def test_lines_of_a_long_command_are_passed_on_as_they_come_without_those_of_the_login(made: MakeHost) -> None:
    host, heard = made('echo Welcome; exec sh -c "$1"'), []

    def hear(line: str) -> None:
        heard.append((line, time.monotonic()))

    assert host.shell.follow("echo one; sleep 0.3; echo two; exit 5", hear, 20) == 5
    assert [line for line, _ in heard] == ["one", "two"]
    assert heard[1][1] - heard[0][1] > 0.2


def test_a_host_that_answers_each_command_late_when_its_patience_is_used_up_then_is_asked_nothing_more(
    made: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "QUICK_SECONDS", 0.1)
    host = made(patience=0.5)
    with pytest.raises(TooSlow, match=r"^n1: it is too slow: .* wait for \d s in sum .* is not asked any more"):
        list(map(host.shell.run, ["sleep 0.4"] * 20))
    assert 1 <= host.channels[0].sent.count(b"sleep") <= 2


def test_commands_that_wait_at_the_same_time_and_those_with_a_longer_limit_cost_no_more_patience(
    made: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "QUICK_SECONDS", 0.1)
    host = made(patience=60)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: host.shell.run("sleep 0.6"), range(6)))
    assert 0.4 < host.shell.slow < 2
    before = host.shell.slow
    host.shell.run("sleep 0.3", seconds=SECONDS + 1)
    assert host.shell.slow == before


def test_a_command_that_prints_without_end_is_ended_and_told(made: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_OUTPUT", 1 << 20)
    with pytest.raises(Unreachable, match=r"n1: the connection was lost \(it sent more than 1 MiB"):
        made().shell.run("yes", seconds=20)


class ComplainingChannel:
    """A channel on which errors come without end until it is closed, and no output."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def settimeout(self, seconds: float) -> None:
        """Nothing waits here."""

    def recv_stderr(self, size: int) -> bytes:
        return bytes(0 if self.closed.is_set() else size)

    def recv(self, size: int) -> bytes:  # noqa: ARG002
        assert self.closed.wait(60)
        return b""

    def close(self) -> None:
        self.closed.set()


def test_a_command_that_complains_without_end_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_OUTPUT", 1 << 20)
    session = exchange.Exchange(cast("paramiko.Channel", ComplainingChannel()), time.monotonic() + 60)
    session.read_errors_beside().join(60)
    with pytest.raises(OSError, match="it sent more than 1 MiB"):
        session.read_until(b"mark")
    assert len(session.error) < 2 << 20
