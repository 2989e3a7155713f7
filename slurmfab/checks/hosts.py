"""The hosts as checks see them: testinfra's host objects, with shells of ours behind them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from slurmfab.checks.memory import RememberingShell
from slurmfab.checks.shell import SECONDS, Shell, SshShell, shortened
from slurmfab.errors import HostError, SlurmfabError, SudoPasswordNeeded
from slurmfab.inventory import Inventory
from slurmfab.ssh import route
from slurmfab.ssh.fan_out import on_each
from slurmfab.ssh.host_keys import PinnedKey
from slurmfab.ssh.transport import SshTransport

Shells = Mapping[str, "Shell | HostError"]
"""By host: its shell, or why there is none."""

LOGINS = 6
"""How many others log in to a host by SSH at a time. From ten logins on that are under way, whoever's they are, sshd
turns some away by chance (sshd_config(5), MaxStartups)."""


class ShellBackend(BaseBackend):  # type: ignore[misc] # testinfra ships no type information
    """What testinfra's modules run their commands through.

    Args:
        name: the host's name in the cluster.
        shell: its shell.
    """

    NAME = "slurmfab"

    def __init__(self, name: str, shell: Shell) -> None:
        super().__init__(name)
        self.shell = shell

    def run(self, command: str, *args: str, **kwargs: Any) -> CommandResult:
        """Run a command, with testinfra's `%s` filled in and quoted; `stdin` and `seconds` are ours."""
        text = self.quote(command, *args)
        answer = self.shell.run(text, str(kwargs.get("stdin", "")), float(kwargs.get("seconds", SECONDS)))
        return self.result(answer.code, text.encode(), answer.output, answer.error)

    def decode(self, data: bytes) -> str:
        """Output as text; what is no UTF-8 in it is no reason to stop."""
        return data.decode(errors="replace")

    def encode(self, data: str) -> bytes:
        """Text as bytes."""
        return data.encode()


class CheckedHost(Host):  # type: ignore[misc] # as above
    """A testinfra host that knows its name in the cluster, and complains in sentences.

    Args:
        name: in the cluster.
        shell: its shell.

    `logins` is held by whoever has another host log in to this one.
    """

    def __init__(self, name: str, shell: Shell) -> None:
        super().__init__(ShellBackend(name, shell))
        self.backend.set_host(self)
        self.name = name
        self.logins = threading.BoundedSemaphore(LOGINS)
        self.memory = RememberingShell(shell)

    @property
    def as_found(self) -> CheckedHost:
        """The same host as it was when it was first asked: the same question is put once, however many checks have it.

        Not for what a check waits for, or what jobs may have changed since.
        """
        return CheckedHost(self.name, self.memory)

    def ask(self, command: str, *args: str, stdin: str = "", seconds: float = SECONDS) -> str:
        """The output of a command that has to succeed, without white space around it.

        Raises:
            AssertionError: it does not; the text has its last words.
        """
        done = self.run_expect([0], command, *args, stdin=stdin, seconds=seconds)
        return str(done.stdout).strip()

    def run_expect(self, expected: list[int], command: str, *args: str, **kwargs: Any) -> CommandResult:
        """What a command left that has to end with one of these exit codes; testinfra's modules use it as well.

        Raises:
            AssertionError: it does not; the text has its last words.
        """
        done = self.run(command, *args, **kwargs)
        text = self.backend.quote(command, *args)
        assert done.rc in expected, f"`{shortened(text)}` fails on {self.name}: {last_words(done)}."
        return done

    def check_output(self, command: str, *args: str, **kwargs: Any) -> str:
        """The output of a command that has to succeed, for testinfra's modules."""
        return str(self.run_expect([0], command, *args, **kwargs).stdout).rstrip("\r\n")


def last_words(done: CommandResult) -> str:
    """The last line that a command left, or its exit code where it left none; without a full stop at its end."""
    lines: list[str] = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1].strip().rstrip(".") if lines else f"exit code {done.rc}"


@contextmanager
def open_shells(
    inventory: Inventory,
    hosts: Iterable[str],
    policies: Mapping[str, PinnedKey],
    ask_password: Callable[[], str] | None = None,
    password: str = "",
) -> Iterator[Shells]:
    """Shells on all of these hosts, opened at once; a host without one has its error instead.

    Args:
        inventory: the cluster.
        hosts: whom to connect to.
        policies: what holds the pinned key of each host.
        ask_password: asks the user for the sudo password, at most once; `None` where nobody can be asked.
        password: the sudo password, where it is known already.
    """
    transport = SshTransport(route.to_hosts(inventory.cluster), policies)
    passwords = Passwords(ask_password, password)

    def shell_on(host: str) -> Shell:
        connection = transport.connection(host)
        if not transport.routes[host].become:
            return SshShell(host, connection)
        shell = SshShell(host, connection, become=True, password=passwords.known)
        try:
            shell.run("true")
        except SudoPasswordNeeded:
            shell.password = passwords.asked()
            shell.run("true")
        return shell

    try:
        opened: dict[str, Shell | HostError] = {}
        for host, outcome in on_each(hosts, shell_on):
            if isinstance(outcome, SlurmfabError) and not isinstance(outcome, HostError):
                raise outcome
            opened[host] = outcome
        yield opened
    finally:
        transport.close()


class Passwords:
    """The sudo password, asked for once however many hosts want it.

    Args:
        ask: asks the user; `None` where nobody can be asked.
        known: what is known already.
    """

    def __init__(self, ask: Callable[[], str] | None, known: str = "") -> None:
        self.ask = ask
        self.known = known
        self.asking = threading.Lock()

    def asked(self) -> str:
        """The password; empty where nobody can be asked."""
        with self.asking:
            if not self.known and self.ask:
                self.known = self.ask()
            return self.known
