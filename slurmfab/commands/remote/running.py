"""`fab run`: a command on many hosts at once, equal outputs told once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from slurmfab.base.errors import HostError, InputError, SlurmfabError, Unreachable
from slurmfab.base.exit_codes import DONE, FAILURE, INTERRUPTED, LEFT_OUT
from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.terminal import BOLD, RED, Paint, StatusLine, hang, is_terminal, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import session
from slurmfab.core.status import selection
from slurmfab.hosts import remote_command
from slurmfab.hosts.fan_out import FAN_OUT, on_each
from slurmfab.hosts.transport import SshTransport

MOST_OUTPUT = 1 << 20  # the most bytes of output of one host, after which its command is ended
MOST_IN_ALL = 256 << 20  # the most bytes of output of all hosts together


class Where(NamedTuple):
    """The hosts that a command line names."""

    on: str = ""  # words, see `slurmfab.core.status.selection`; empty for all hosts
    without: str = ""  # those that are left out


@shows("host", "exit_code", "output", "error", Key("seconds", digits=3))
@dataclass(frozen=True)
class HostRan:
    """A host, and what the command did there."""

    host: str  # its name
    exit_code: int | None  # of the command; null where it did not run, or did not end by itself
    output: str  # its output and its errors, as they came; bytes that are no UTF-8 as \\xff
    error: str  # why it did not run, or was ended; empty where it ended by itself
    seconds: float  # how long it took, with the login
    has_begun: bool = True  # whether the command was started
    is_silent: bool = False  # whether the host could not be reached

    @property
    def has_failed(self) -> bool:
        """Whether the host could be reached, and the command did not end with 0."""
        return not self.is_silent and self.exit_code != 0


@shows("version", "cluster", "command", "exit_code", "hosts")
@dataclass(frozen=True)
class RanOnHosts:
    """A command on many hosts."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # its name
    command: str  # as it was given
    hosts: tuple[HostRan, ...]  # in the order of the cluster

    @property
    def exit_code(self) -> int:
        """1 if the command failed somewhere, else 3 if a host could not be reached, else 0."""
        if any(one.has_failed for one in self.hosts):
            return FAILURE
        return LEFT_OUT if any(one.is_silent for one in self.hosts) else DONE


def run(cluster: str, command: str, where: Where, output: session.Output, *, sudo: bool, seconds: int | None) -> int:
    """Run a command on hosts, show what it said, and return the exit code. Raises InputError for wrong words."""
    if not command.strip():
        raise InputError("The command is empty.")
    if len(command.encode("utf-8", "surrogateescape")) > remote_command.MOST_COMMAND or "\0" in command:
        raise InputError(f"A command has at most {remote_command.MOST_COMMAND >> 10} KiB: put a script on the hosts.")
    if seconds == 0:
        raise InputError("--timeout 0: give the command at least a second.")
    known = loading.load_named(cluster)
    found: dict[str, HostRan] = {}
    with reaching(known, output) as transport:
        hosts = selection.chosen(known, *where, nodes=lambda: selection.ask_nodes(known, transport))
        try:
            fan_out(transport, hosts, command, found, sudo=sudo, seconds=seconds)
        except KeyboardInterrupt:
            transport.close()  # with the connections, the commands end on the hosts
            show(found, hosts, output)
            left = fold(host for host in hosts if host not in found)
            write(f"Interrupted. The command was ended where it still ran: {left}.", sys.stderr)
            sys.stdout.flush()
            os._exit(INTERRUPTED)  # threads may still wait for hosts that do not answer
    done = RanOnHosts(known.cluster.name, command, tuple(found[host] for host in hosts))
    show(found, hosts, output)
    output.write_json(done)
    return done.exit_code


@contextmanager
def reaching(known: Inventory, output: session.Output) -> Iterator[SshTransport]:
    """Connections to the hosts as `deploy` has them, closed at the end; all are held by this process."""
    asker = output.asker()
    password = asker() if output.ask_password and asker else ""
    transport = session.ssh_to(known, asker, password)
    try:
        yield transport
    finally:
        transport.close()


def fan_out(
    transport: SshTransport,
    hosts: Sequence[str],
    command: str,
    found: dict[str, HostRan],
    *,
    sudo: bool,
    seconds: int | None,
) -> None:
    """Run a command on hosts, and note how each ended as soon as it has."""
    most = max(1 << 16, min(MOST_OUTPUT, MOST_IN_ALL // len(hosts)))
    equal: dict[bytes, bytes] = {}  # so that equal outputs are held once

    def on_host(host: str) -> HostRan:
        begun = time.monotonic()
        becomes = sudo and transport.routes[host].user != "root"
        try:
            connection = transport.connection(host)
            channel, first = remote_command.started(host, connection, command, transport.sudo if becomes else None)
            ran = remote_command.finished(host, channel, first, seconds, most)
        except HostError as error:
            is_silent = isinstance(error, Unreachable)
            return HostRan(host, None, "", error.reason, time.monotonic() - begun, False, is_silent)
        finally:
            transport.forget(host)
        text = equal.setdefault(ran.output, ran.output).decode("utf-8", "backslashreplace")
        return HostRan(host, None if ran.ended else ran.code, text, ran.ended, time.monotonic() - begun)

    status = StatusLine(sys.stderr) if is_terminal(sys.stderr) else None
    begun = time.monotonic()
    try:
        for host, outcome in on_each(hosts, on_host, FAN_OUT):
            if isinstance(outcome, SlurmfabError):  # about this machine, such as a private key that is missing
                raise outcome
            found[host] = outcome
            if status:
                status.show(f"waiting for {fold(one for one in hosts if one not in found)}", begun)
    finally:
        if status:
            status.end()


def show(found: Mapping[str, HostRan], hosts: Sequence[str], output: session.Output) -> None:
    """Print the output of each group of hosts with the same output and end, then what went wrong."""
    paint = Paint(output.stream)
    ended = [found[host] for host in hosts if host in found]
    begun = [one for one in ended if one.has_begun]
    for (text, code, error), same in grouped(((one.output, one.exit_code, one.error), one) for one in begun).items():
        names = fold(one.host for one in same)
        what = f" ({error or f'exit code {code}'})" if code != 0 else ""
        label = paint(f"{names}{what}:", RED if what else BOLD)
        body = text.rstrip("\n").replace("\r\n", "\n")
        write(f"{label} {hang(body)}".rstrip() if "\n" not in body else f"{label}\n    {hang(body)}", output.stream)
    for line in fold_lines((one.host, one.error) for one in ended if not one.has_begun):
        write(line, sys.stderr)
    failed = [one.host for one in ended if one.has_failed]
    silent = [one.host for one in ended if one.is_silent]
    if failed or silent:
        parts = [f"failed on {len(failed)} ({fold(failed)})"] if failed else []
        parts += [f"not reached: {len(silent)} ({fold(silent)})"] if silent else []
        write(f"{len(ended)} hosts: {', '.join(parts)}.", sys.stderr)
