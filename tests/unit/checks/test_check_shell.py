"""A shell over SSH: both streams, exit codes, deadlines, and sudo's question answered only where it is asked."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from types import SimpleNamespace

import paramiko
import pytest

from slurmfab.base.errors import BecomeRefused, LoginRefused, SudoPasswordNeeded, SudoPasswordWrong, Unreachable
from slurmfab.commands.checks.shell import PROMPT, READY, CommandResult, NoAnswer, SshShell, with_input

Reaction = Callable[["Channel"], None]


class Channel:
    """An SSH channel to a program that is a function of what it is sent."""

    def __init__(self, started: Reaction, answered: Reaction = lambda _: None) -> None:
        self.started, self.answered = started, answered
        self.output, self.error, self.sent = b"", b"", b""
        self.command = ""
        self.patience = 0.0
        self.status_event = threading.Event()
        self.exit_status = -1

    def says(self, output: bytes = b"", error: bytes = b"") -> None:
        self.output += output
        self.error += error

    def ends(self, code: int) -> None:
        self.exit_status = code
        self.status_event.set()

    def settimeout(self, seconds: float) -> None:
        self.patience = seconds

    def exec_command(self, command: str) -> None:
        self.command = command
        self.started(self)

    def sendall(self, data: bytes) -> None:
        self.sent += data
        self.answered(self)

    def recv(self, size: int) -> bytes:
        taken, self.output = self.output[:size], self.output[size:]
        return taken or self.at_the_end()

    def recv_stderr(self, size: int) -> bytes:
        taken, self.error = self.error[:size], self.error[size:]
        return taken or self.at_the_end()

    def at_the_end(self) -> bytes:
        if not self.status_event.wait(self.patience):
            raise TimeoutError
        return b""

    def close(self) -> None:
        self.status_event.set()


def shell_over(channel: Channel, *, become: bool = False, password: str = "") -> SshShell:
    transport = SimpleNamespace(open_session=lambda **_: channel)
    return SshShell("n1", SimpleNamespace(transport=transport), become=become, password=password)


def test_command_when_it_fills_both_streams_is_read_to_the_end() -> None:
    def program(channel: Channel) -> None:
        channel.says(READY + b"o" * 200_000, READY + b"e" * 200_000)
        channel.ends(3)

    assert shell_over(Channel(program)).run("x", "in") == CommandResult(3, b"o" * 200_000, b"e" * 200_000)


def test_command_when_it_never_ends_is_no_answer_in_time() -> None:
    with pytest.raises(NoAnswer, match=r"n1: `sleep 99` gave no answer within 0 s\."):
        shell_over(Channel(lambda _: None)).run("sleep 99", seconds=0.05)


def test_command_when_the_connection_breaks_is_an_unreachable_host() -> None:
    def breaks(_: Channel) -> None:
        raise paramiko.SSHException("SSH session not active")

    with pytest.raises(Unreachable, match=r"n1: the connection was lost \(SSH session not active\)"):
        shell_over(Channel(breaks)).run("true")


def test_output_of_start_files_before_a_command_is_no_output_of_it() -> None:
    def program(channel: Channel) -> None:
        channel.says(b"Welcome!\nno line end" + READY + b"Linux\n", b"stty: not a tty\n" + READY + b"warning\n")
        channel.ends(0)

    assert shell_over(Channel(program)).run("uname") == CommandResult(0, b"Linux\n", b"warning\n")


def test_login_shell_that_ends_without_running_the_command_is_a_refused_login_in_its_own_words() -> None:
    def program(channel: Channel) -> None:
        channel.says(b"This account is currently not available.\n")
        channel.ends(1)

    with pytest.raises(LoginRefused, match=r"its login shell ends .*: This account is currently not available"):
        shell_over(Channel(program)).run("uname")


def test_login_shell_that_prints_its_commands_prints_neither_the_mark_nor_the_question_for_a_password() -> None:
    channel = Channel(lambda channel: channel.ends(1))
    with pytest.raises(BecomeRefused):
        shell_over(channel, become=True, password="secret").run("true")
    assert PROMPT.decode() not in channel.command
    assert READY.decode().strip() not in channel.command


def asks_for_password(channel: Channel) -> None:
    channel.says(error=PROMPT)


def takes_password(channel: Channel) -> None:
    if channel.sent == b"secret\n":
        channel.says(error=b"\nlecture\n" + READY)
    elif channel.sent == b"secret\ninput":
        channel.says(READY + b"done")
        channel.ends(0)


def test_sudo_when_it_asks_gets_the_password_and_the_command_only_its_input() -> None:
    channel = Channel(asks_for_password, takes_password)
    assert shell_over(channel, become=True, password="secret").run("cat", "input") == CommandResult(0, b"done", b"")
    assert "secret" not in channel.command


def test_sudo_when_it_does_not_ask_is_sent_no_password() -> None:
    def lets_in(channel: Channel) -> None:
        channel.says(error=READY)

    def takes_input(channel: Channel) -> None:
        channel.says(READY)
        channel.ends(0)

    channel = Channel(lets_in, takes_input)
    shell_over(channel, become=True, password="secret").run("cat", "input")
    assert channel.sent == b"input"


def test_sudo_when_it_asks_and_no_password_is_known_says_how_to_give_one() -> None:
    with pytest.raises(SudoPasswordNeeded, match="--ask-sudo-password"):
        shell_over(Channel(asks_for_password), become=True).run("true")


def test_sudo_when_it_asks_twice_has_refused_the_password() -> None:
    channel = Channel(asks_for_password, asks_for_password)
    with pytest.raises(SudoPasswordWrong, match="does not accept the password") as caught:
        shell_over(channel, become=True, password="secret").run("true")
    assert "secret" not in str(caught.value)


def test_sudo_when_it_refuses_is_told_in_its_own_words() -> None:
    def refuses(channel: Channel) -> None:
        channel.says(error=b"admin is not in the sudoers file.\n")
        channel.ends(1)

    with pytest.raises(BecomeRefused, match="sudo refused: admin is not in the sudoers file"):
        shell_over(Channel(refuses), become=True).run("true")


def test_session_when_sshd_counts_too_many_is_opened_a_little_later() -> None:
    def ends_well(channel: Channel) -> None:
        channel.says(READY)
        channel.ends(0)

    answers: list[Exception | Channel] = [paramiko.ChannelException(2, "Connect failed"), Channel(ends_well)]

    def open_session(**_: float) -> Channel:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    transport = SimpleNamespace(open_session=open_session, is_active=lambda: True)
    assert SshShell("n1", SimpleNamespace(transport=transport)).run("true").code == 0
    assert answers == []


@pytest.mark.parametrize(
    ("command", "stdin", "output"),
    [
        ("cat", "credential\n", "credential\n"),
        ("cat", "", ""),
        ("true; cat; echo done", "x", "xdone\n"),
        ("exec cat", "x", "x"),
        ("true", "much" * 50_000, ""),
    ],
)
def test_input_needs_no_end_behind_it(command: str, stdin: str, output: str) -> None:
    line = with_input(command, stdin.encode())
    with subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin.encode())
            process.stdin.flush()
        assert process.stdout.read().decode() == output
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        assert process.wait(20) == 0
