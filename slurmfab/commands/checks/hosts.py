"""The host objects of the checks: testinfra hosts that run their commands in slurmfab's shells."""

from __future__ import annotations

import math
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import cache, cached_property
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host
from testinfra.modules import modules

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.shell import PATIENCE_SECONDS, SECONDS, Shell, SshShell, shortened
from slurmfab.commands.checks.shell import CommandResult as ShellResult
from slurmfab.core.engine import session
from slurmfab.hosts import route
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.sudo_password import SudoPassword
from slurmfab.hosts.transport import SshTransport
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.nodes.user_jobs import Person

Shells = Mapping[str, "Shell | HostError"]  # shells by host name; for a host without a shell, the error

LOGINS = 6
"""How many hosts log in to one host by SSH at the same time. From ten unauthenticated connections on, including those
of other users, sshd drops some at random (sshd_config(5), MaxStartups)."""

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]
"""Opens shells on the named hosts of a cluster; see `open_shells`."""


class ShellBackend(BaseBackend):  # type: ignore[misc] # testinfra ships no type information
    """The testinfra backend that runs commands in a `Shell`."""

    NAME = "slurmfab"

    def __init__(self, name: str, shell: Shell) -> None:
        super().__init__(name)
        self.shell = shell

    def run(self, command: str, *args: str, **kwargs: Any) -> CommandResult:
        """Run a command, whatever its exit code; of the options, `stdin` and `seconds` count."""
        text = self.quote(command, *args)
        answer = self.shell.run(text, str(kwargs.get("stdin", "")), float(kwargs.get("seconds", SECONDS)))
        return self.result(answer.code, text.encode(), answer.output, answer.error)

    def decode(self, data: bytes) -> str:
        """Output as text; bytes that are not UTF-8 are replaced."""
        return data.decode(errors="replace")

    def encode(self, data: str) -> bytes:
        """Text as bytes."""
        return data.encode()


class CheckedHost(Host):  # type: ignore[misc] # as above
    """A testinfra host with its name in the cluster file, and with readable messages for failed commands.

    Its modules, as in `host.service("munge").is_running`, ask a host once in a run what several checks want to know.
    `run` and `ask` ask anew, for what a check waits for or what jobs may change. `logins`: held while another host logs
    in to this one by SSH.
    """

    def __init__(self, name: str, shell: Shell) -> None:
        super().__init__(ShellBackend(name, shell))
        self.backend.set_host(self)
        self.name = name
        self.logins = threading.BoundedSemaphore(LOGINS)

    @cached_property
    def as_found(self) -> CheckedHost:
        """The same host, of which `run` and `ask` remember their results, too."""
        return RememberingHost(self.name, RememberingShell(self.backend.shell))

    def __getattr__(self, name: str) -> Any:
        """A module of testinfra's."""
        if name in modules:
            return getattr(self.as_found, name)
        raise AttributeError(f"a host has no {name}")

    def ask(self, command: str, *args: str, stdin: str = "", seconds: float = SECONDS) -> str:
        """The stripped output of a command; AssertionError, with its last line, if it fails."""
        done = self.run_expect([0], command, *args, stdin=stdin, seconds=seconds)
        return str(done.stdout).strip()

    def run_expect(self, expected: list[int], command: str, *args: str, **kwargs: Any) -> CommandResult:
        """The result of a command, AssertionError with its last line for other exit codes; for testinfra's modules."""
        done = self.run(command, *args, **kwargs)
        text = self.backend.quote(command, *args)
        assert done.rc in expected, f"`{shortened(text)}` fails on {self.name}: {last_words(done)}."
        return done

    def check_output(self, command: str, *args: str, **kwargs: Any) -> str:
        """The output without final line ends, AssertionError with the last line if it fails; for testinfra."""
        output = str(self.run_expect([0], command, *args, **kwargs).stdout).rstrip("\r\n")
        if command.startswith("systemctl show"):
            # testinfra takes every line for `NAME=VALUE`, but a unit's command may have line breaks.
            output = "\n".join(line for line in output.splitlines() if "=" in line)
        return output


class RememberingHost(CheckedHost):
    """A host whose results are remembered for the whole run."""

    def __getattr__(self, name: str) -> Any:
        """A module of testinfra's; each unit of systemd is one object, which reads its 300 properties once."""
        module = Host.__getattr__(self, name)
        if name == "service":
            module = cache(module)
            self.service = module
        return module


def line_of(command: Sequence[str]) -> str:
    """A command of Slurm's as a line for `sh -c`."""
    return shlex.join(command)


def record_of(job: str, *fields: str) -> str:
    """A line for `sh -c` that prints fields of a job in slurmdbd.

    The job may have the number of an array that a crash has lost, whose tasks sacct would show as well.
    """
    return f"{line_of(commands.recorded(job, 'JobIDRaw', *fields))} | sed -n 's/^{job}|//p'"


def person(host: CheckedHost, name: str) -> Person:
    """A user of a host, by login name. Raises InputError if the host has no such user."""
    fields = host.run("getent passwd %s", name).stdout.strip().split(":")
    if len(fields) < 7:
        raise InputError(f"--user {name}: there is no such user on {host.name}.")
    return Person(name, fields[5])


def last_words(done: CommandResult) -> str:
    """The last line of a command's error output, else of its output, else its exit code; without a final full stop."""
    lines: list[str] = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1].strip().rstrip(".") if lines else f"exit code {done.rc}"


def last_object(done: CommandResult) -> dict[str, Any]:
    """The JSON object in the last line of a command's output; empty if it is none."""
    return dict(json_objects.parse((str(done.stdout).strip().splitlines() or [""])[-1].encode()) or {})


@contextmanager
def open_shells(
    inventory: Inventory,
    hosts: Iterable[str],
    policies: Mapping[str, PinnedKey],
    ask_password: Callable[[], str] | None = None,
    password: str = "",
) -> Iterator[Shells]:
    """Open shells on these hosts at once; each host has its shell, or the `HostError` that prevented it.

    `policies`: pinned host keys by name. `ask_password`: prompts for the sudo password, again if it is wrong; `None` if
    nobody can be asked. Raises SlurmfabError for what concerns the whole cluster.
    """
    transport = SshTransport(route.to_hosts(inventory.cluster), policies)
    sudo = SudoPassword(ask_password, password)

    def patience(host: str) -> float:
        # Commands of the controllers wait for Slurm, and without these nothing is checked.
        return math.inf if host in inventory.cluster.controllers else PATIENCE_SECONDS

    try:
        shells: dict[str, Shell | HostError] = {}
        for host, outcome in on_each(hosts, lambda host: shell_on(host, transport, sudo, patience(host))):
            if isinstance(outcome, SlurmfabError) and not isinstance(outcome, HostError):
                raise outcome
            shells[host] = outcome
        yield shells
    finally:
        transport.close()


def shell_on(host: str, transport: SshTransport, sudo: SudoPassword, patience: float = math.inf) -> Shell:
    """Open a shell on a host, with sudo if the file says so; HostError if unreachable, or sudo refuses."""
    connection = transport.connection(host)
    if not transport.routes[host].become:
        return SshShell(host, connection, patience=patience)
    shell = SshShell(host, connection, become=True, patience=patience)

    def attempt(password: str) -> tuple[Shell, bool]:
        shell.password = password
        shell.run("true")
        return shell, shell.used_password

    return sudo.log_in(attempt)


class RememberingShell:
    """A shell that runs each command, which changes nothing, once, and returns its result or error to all callers."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.answers: dict[tuple[str, str], Future[ShellResult]] = {}
        self.looking_up = threading.Lock()

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> ShellResult:
        """The result, or error, of the first run of this command and input, for which concurrent callers wait."""
        with self.looking_up:
            is_new = (command, stdin) not in self.answers
            answer = self.answers.setdefault((command, stdin), Future())
        if is_new:
            try:
                answer.set_result(self.shell.run(command, stdin, seconds))
            except BaseException as error:  # the other callers wait for it and must get the error
                answer.set_exception(error)
        return answer.result()


def opener_of(output: session.Output, password: str = "") -> Opener:
    """A function that opens shells on hosts by SSH; the sudo password, if asked for already, is handed to it."""
    ask = output.asker()
    known_password = password or (ask() if ask and output.ask_password else "")

    def opener(inventory: Inventory, hosts: Sequence[str]) -> AbstractContextManager[Shells]:
        policies = session.policies_of(inventory, inventory.cluster.hosts)
        return open_shells(inventory, hosts, policies, ask, known_password)

    return opener


def host_in(shells: Shells, name: str) -> CheckedHost:
    """A host whose shell is open. Raises HostError if it cannot be reached."""
    shell = shells[name]
    if isinstance(shell, HostError):
        raise shell
    return CheckedHost(name, shell)


@contextmanager
def opened(opener: Opener, known: Inventory, name: str) -> Iterator[CheckedHost]:
    """One host, with its shell open in the `with` block. Raises HostError if it cannot be reached."""
    with opener(known, (name,)) as shells:
        yield host_in(shells, name)
