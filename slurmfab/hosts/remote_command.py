"""A command of the operator's on one host, which ends with the connection, and whose output has a bound."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmfab.base.errors import AgentFailed, ConnectionLost, LoginRefused, SudoPasswordNeeded, SudoPasswordWrong
from slurmfab.hosts.login_shells import in_sh, reset
from slurmfab.hosts.session import SUDO, SUDO_PROMPT
from slurmfab.hosts.sudo_password import NEEDED, WITHOUT_RIGHTS, WRONG, SudoPassword, refusal

if TYPE_CHECKING:
    import paramiko

START_SECONDS = 30.0  # time limit for sshd, sudo and the login shell until the command begins
LOOK_SECONDS = 1.0  # how often it is looked whether a command has ended whose output another process keeps open
MOST_COMMAND = 65_536  # the most bytes of a command; an argument has at most 128 KiB (execve(2)), and it is quoted

MARK = os.urandom(8).hex()
"""What a host prints in front of the command's output; what start files of the login shell print comes before it."""

LIFELINE = """\
exec 3<&0 </dev/null
(trap '' TERM; while read -r line; do :; done <&3; kill -TERM 0; sleep 2; kill -KILL 0) >/dev/null 2>&1 &
watcher=$!
"${SHELL:-/bin/sh}" -c "$command" 3<&-
code=$?
kill -KILL "$watcher" 2>/dev/null
exit "$code"
"""
"""Runs a command for as long as standard input is open. Without a terminal, sshd tells no process that its client is
gone: a `sleep 1000` would go on. The watcher ends the whole process group, which sshd, or sudo, has made for this."""


@dataclass(frozen=True)
class Ran:
    """How a command ended on a host."""

    code: int  # its exit code; -1 where it was ended
    output: bytes  # its output and its errors, in the order in which they came
    ended: str = ""  # why it was ended; empty if it ended by itself


def started(
    host: str, connection: paramiko.SSHClient, command: str, sudo: SudoPassword | None
) -> tuple[paramiko.Channel, bytes]:
    """Start a command, as root where `sudo` has the password; its channel, and the first bytes of its output.

    Raises BecomeRefused of sudo; LoginRefused, AgentFailed or ConnectionLost if it was not started.
    """
    text = f'command={shlex.quote(command)}; m={MARK[:8]}; echo "$m"{MARK[8:]}\n{LIFELINE}'
    line = f"exec {in_sh(text)}"
    if sudo is not None:
        line = f"exec {SUDO} -- {in_sh(text)}"

    def attempt(password: str) -> tuple[tuple[paramiko.Channel, bytes], bool]:
        channel = opened(host, connection, line)
        try:
            return begin(host, channel, password, becomes=sudo is not None)
        except BaseException:
            channel.close()
            raise

    return sudo.log_in(attempt) if sudo is not None else attempt("")[0]


def opened(host: str, connection: paramiko.SSHClient, line: str) -> paramiko.Channel:
    """A channel on which sshd has started a command line."""
    from slurmfab.hosts.connection import transport_of  # paramiko is slow to import

    try:
        channel: paramiko.Channel = transport_of(connection).open_session(timeout=START_SECONDS)
        channel.settimeout(START_SECONDS)
        channel.set_combine_stderr(True)
        channel.exec_command(line)
    except Exception as error:  # whatever a server's data made of paramiko's thread is raised here
        why = str(error).rstrip(".") or type(error).__name__
        more = f" {told}." if (told := reset(why)) else ""
        message = f"SSH login succeeded, but the server refused to start a command: {why}.{more}"
        raise AgentFailed(host, message) from error
    return channel


def begin(
    host: str, channel: paramiko.Channel, password: str, *, becomes: bool
) -> tuple[tuple[paramiko.Channel, bytes], bool]:
    """Answer sudo and wait until the command begins: channel and first output, and whether sudo took a password."""
    mark, prompt, was_asked, said = f"{MARK}\n".encode(), SUDO_PROMPT.encode(), False, b""
    while mark not in said:
        if becomes and prompt in said:
            said = said.replace(prompt, b"", 1)
            if was_asked:
                raise SudoPasswordWrong(host, WRONG)
            if not password:
                raise SudoPasswordNeeded(host, NEEDED)
            channel.sendall(password.encode() + b"\n")
            was_asked = True
            continue
        try:
            piece = channel.recv(8192)
        except TimeoutError:
            raise ConnectionLost(
                host, f"SSH login works, but its shell runs no command: no data for {START_SECONDS:.0f} s."
            ) from None
        if piece:
            said = (said + piece)[-65_536:]
            continue
        refuse_excess(host, channel)
        text = said.decode(errors="replace")
        if becomes and ("sudo" in text or any(part in text for part in WITHOUT_RIGHTS)):
            raise refusal(host, text)
        last = (text.strip().splitlines() or ["it said nothing"])[-1].rstrip(".")
        raise LoginRefused(host, f"its login shell ends without running a command: {last}.")
    return (channel, said.partition(mark)[2]), was_asked


def refuse_excess(host: str, channel: paramiko.Channel) -> None:
    """Raise ConnectionLost if the connection was closed because the host sent too much."""
    from slurmfab.hosts.connection import excess  # paramiko is slow to import

    if more := excess(channel):
        raise ConnectionLost(host, f"the connection was closed: {more}. Is its sshd the distribution's?")


def finished(host: str, channel: paramiko.Channel, output: bytes, seconds: float | None, most: int) -> Ran:
    """Read the output of a command until it ends; after so many seconds, or bytes, it is ended there.

    Raises ConnectionLost if the host vanishes meanwhile.
    """
    deadline, pieces, size = None if seconds is None else time.monotonic() + seconds, [output], len(output)
    try:
        while size <= most:
            left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return Ran(-1, b"".join(pieces), f"it was ended after {seconds:.0f} s")
            channel.settimeout(min(left, LOOK_SECONDS))
            try:
                piece = channel.recv(65_536)
            except TimeoutError:
                if not channel.status_event.is_set():
                    continue
                piece = b""  # a process in the background keeps the output open
            if not piece:
                if not channel.status_event.wait(LOOK_SECONDS) or channel.recv_exit_status() < 0:
                    if channel.get_transport().is_active():
                        return Ran(-1, b"".join(pieces), "a signal ended it")
                    refuse_excess(host, channel)
                    raise ConnectionLost(host, "the connection was lost while the command ran. Is the host still up?")
                return Ran(channel.recv_exit_status(), b"".join(pieces))
            pieces.append(piece)
            size += len(piece)
        return Ran(-1, b"".join(pieces)[:most], f"it was ended after {most >> 10} KiB of output")
    finally:
        channel.close()
