"""The sudo password: asked for again when it is wrong, shared by all hosts, and never shown at the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slurmfab.base.errors import SudoPasswordNeeded, SudoPasswordWrong
from slurmfab.hosts.sudo_password import TRIES, SudoPassword

RIGHT = "correct horse"

PATIENCE = 60
"""Seconds after which something that does not come has failed."""


def host(name: str = "n1", accepts: str = RIGHT, asks: bool = True) -> Callable[[str], tuple[str, bool]]:
    """A host whose sudo accepts one password, or asks for none."""

    def attempt(password: str) -> tuple[str, bool]:
        if asks and not password:
            raise SudoPasswordNeeded(name, "sudo asks.")
        if asks and password != accepts:
            raise SudoPasswordWrong(name, "sudo does not accept the password.")
        return name, asks

    return attempt


class User:
    """Somebody who gives these answers, one after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    def __call__(self) -> str:
        return self.answers.pop(0)


@pytest.mark.parametrize("answers", [(RIGHT,), ("wrong", RIGHT), ("wrong", "wrong", RIGHT)])
def test_a_wrong_password_is_asked_for_again(answers: tuple[str, ...]) -> None:
    user = User(*answers)
    assert SudoPassword(user).log_in(host()) == "n1"
    assert user.answers == []


def test_after_three_wrong_passwords_nobody_is_asked_any_more() -> None:
    user = User(*["wrong"] * TRIES, RIGHT)
    sudo = SudoPassword(user)
    for name in ("n1", "n2"):
        with pytest.raises(SudoPasswordWrong, match=name):
            sudo.log_in(host(name))
    assert user.answers == [RIGHT]


def test_a_password_that_was_given_at_the_start_is_the_first_try() -> None:
    user = User("wrong", "wrong", RIGHT)
    with pytest.raises(SudoPasswordWrong):
        SudoPassword(user, "wrong").log_in(host())
    assert user.answers == [RIGHT]


def test_where_nobody_can_be_asked_the_hosts_error_stays() -> None:
    with pytest.raises(SudoPasswordNeeded):
        SudoPassword(None).log_in(host())
    with pytest.raises(SudoPasswordWrong):
        SudoPassword(None, "wrong").log_in(host())


def test_a_host_with_another_password_than_the_accepted_one_is_lost_and_nobody_is_asked() -> None:
    sudo = SudoPassword(User(RIGHT))
    assert sudo.log_in(host("n1")) == "n1"
    with pytest.raises(SudoPasswordWrong, match="n2"):
        sudo.log_in(host("n2", accepts="another"))
    assert sudo.log_in(host("n3", asks=False)) == "n3"


def test_many_hosts_that_refuse_the_same_password_cost_the_user_one_more_answer() -> None:
    user = User("wrong", RIGHT)
    sudo = SudoPassword(user)
    together = threading.Barrier(8)

    def at_once(name: str) -> Callable[[str], tuple[str, bool]]:
        judged = host(name)

        def attempt(password: str) -> tuple[str, bool]:
            if password != RIGHT:
                together.wait(timeout=30)
            return judged(password)

        return attempt

    names = [f"n{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda name: sudo.log_in(at_once(name)), names)) == names
    assert user.answers == []


AT_A_TERMINAL = """\
import os, subprocess, sys, termios
from slurmfab.core.engine.session import Output
from slurmfab.base.errors import SudoPasswordWrong
from slurmfab.hosts.session import Session, command
from slurmfab.hosts.sudo_password import SudoPassword


class Local:
    def __init__(self):
        self.process = subprocess.Popen(
            ["sh", "-c", command(become=True).replace("/usr/bin/sudo", "sudo")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )
        self.sendall = self.process.stdin.write
        self.recv = self.process.stdout.read
        self.exit_code = self.process.wait

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def attempt(password):
    session = Session("n1", Local())
    try:
        session.start(become=True, password=password, request={"op": "facts"})
        return "in", session.used_password
    finally:
        session.close()


try:
    if "FIRST" in os.environ:
        asker = Output(ask_password=True).asker()
        print("result:", SudoPassword(asker, asker()).log_in(lambda _: ("in", False)), flush=True)
    else:
        print("result:", SudoPassword(Output().asker()).log_in(attempt), flush=True)
except SudoPasswordWrong as error:
    print("result:", error, flush=True)
print("echo:", bool(termios.tcgetattr(0)[3] & termios.ECHO), flush=True)
print("line:", sys.stdin.readline(), flush=True)
"""
"""A program that logs in by the session, the sudo password and the terminal of every run, to a sudo on this machine.

At its end it reads a line, as the shell does that has the terminal afterwards.
"""

FAKE_SUDO = """\
#!/bin/sh
prompt=$(printf "$3")
shift 4
while :; do
    printf %s "$prompt"
    read -r password || exit 1
    echo judging > "$FIFOS/judging"
    read -r _ < "$FIFOS/judge"
    [ "$password" = "correct horse" ] && exec "$@"
    echo 'Sorry, try again.'
done
"""
"""Sudo as a script, which waits with its judgement for a line in a FIFO."""


class Terminal:
    """A program at a pseudo terminal, whose sudo waits for `judge`.

    Args:
        directory: for the fake sudo and its FIFOs.
    """

    def __init__(self, directory: Path) -> None:
        sudo = directory / "bin/sudo"
        sudo.parent.mkdir()
        sudo.write_text(FAKE_SUDO)
        sudo.chmod(0o755)
        for name in ("judging", "judge"):
            os.mkfifo(directory / name)
        self.judging, self.judge = (os.open(directory / name, os.O_RDWR) for name in ("judging", "judge"))
        self.fd, self.side = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-c", AT_A_TERMINAL],
            stdin=self.side,
            stdout=self.side,
            stderr=self.side,
            env={**os.environ, "PATH": f"{sudo.parent}:{os.environ['PATH']}", "FIFOS": str(directory)},
            start_new_session=True,
        )
        self.shown = ""

    def close(self) -> None:
        """End the program."""
        self.process.kill()
        self.process.wait()
        for fd in (self.fd, self.side, self.judging, self.judge):
            os.close(fd)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Read what the terminal shows until this text has come so often."""
        while self.shown.count(text) < times:
            assert select.select([self.fd], [], [], PATIENCE)[0], f"{text!r} does not come: {self.shown!r}"
            self.shown += os.read(self.fd, 4096).decode()

    def type(self, text: str) -> None:
        """Type something, with Enter at its end."""
        os.write(self.fd, f"{text}\n".encode())

    def wait_until_typed(self, text: str) -> None:
        """Wait until the kernel has this line for whoever reads next; it takes what is typed over a moment later."""
        deadline = time.monotonic() + PATIENCE
        while int.from_bytes(fcntl.ioctl(self.side, termios.FIONREAD, bytes(4)), sys.byteorder) <= len(text):
            assert time.monotonic() < deadline, text
            time.sleep(0.01)

    def answer(self, question: int, password: str, *too_early: str) -> None:
        """Answer a question for the password, the first one being 1, and type on while sudo judges."""
        self.wait_for("sudo password: ", question)
        self.type(password)
        assert select.select([self.judging], [], [], PATIENCE)[0], self.shown
        os.read(self.judging, 100)
        for text in too_early:
            self.type(text)
            self.wait_until_typed(text)
        os.write(self.judge, b"\n")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def test_what_is_typed_while_sudo_judges_is_neither_shown_nor_left_for_the_shell(terminal: Terminal) -> None:
    terminal.answer(1, "wrong", "too early")
    terminal.answer(2, RIGHT, "too late")
    terminal.wait_for("echo: True")
    terminal.type("command")
    terminal.wait_for("line: command")
    assert "result: in" in terminal.shown
    assert "n1: sudo does not accept this password. Try again." in terminal.shown
    for secret in ("wrong", RIGHT, "too early", "too late"):
        assert secret not in terminal.shown


def test_after_three_wrong_passwords_the_terminal_is_as_before(terminal: Terminal) -> None:
    for question in range(1, TRIES + 1):
        terminal.answer(question, f"wrong{question}", f"early{question}")
    terminal.wait_for("echo: True")
    terminal.type("command")
    terminal.wait_for("line: command")
    assert "result: n1: sudo does not accept the password." in terminal.shown
    assert "wrong" not in terminal.shown
    assert "early" not in terminal.shown


def test_a_password_that_no_sudo_asks_for_keeps_nothing_hidden_after_the_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", "yes")
    terminal = Terminal(tmp_path)
    try:
        terminal.wait_for("sudo password: ")
        terminal.type(RIGHT)
        terminal.wait_for("echo: True")
        terminal.type("command")
        terminal.wait_for("line: command")
        assert RIGHT not in terminal.shown
    finally:
        terminal.close()
