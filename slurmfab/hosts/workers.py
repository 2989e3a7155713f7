"""Processes that hold the connections to many hosts: one interpreter uses one core, whatever its threads do.

Each is a `slurmfab.hosts.worker` with an SSH transport for its share of the hosts. Requests and answers cross a pipe
that nobody else has; the sudo password is asked for here, and crosses it with each request that may need it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from slurmfab.base import surroundings
from slurmfab.base.errors import ConnectionLost
from slurmfab.base.grouping import grouped
from slurmfab.hosts.fan_out import give_up_turn
from slurmfab.hosts.session import Line
from slurmfab.hosts.sudo_password import SudoPassword
from slurmfab.hosts.transport import Ends

if TYPE_CHECKING:
    from slurmfab.hosts.host_keys import PinnedKey
    from slurmfab.hosts.route import Route

BOOT = "import gc; gc.disable(); from slurmfab.hosts import worker; worker.main()"
"""Python text: runs a worker, loaded as quickly as this program."""

LINE, TURN, TELL, DONE, FAILED = "line", "turn", "tell", "done", "failed"
"""Kinds of messages of a worker: a line of an answer, a host that may be off, a line for people, and the two ends."""

END_SECONDS = 10  # how long a worker may take to close its connections

TAKEN = "taken"  # the message to a worker that a line with a part of large data was taken


@dataclass(frozen=True)
class Share:
    """What a worker needs for its share of the hosts."""

    routes: Mapping[str, Route]
    policies: Mapping[str, PinnedKey]
    workers: int  # how many there are
    # how often Python looks for garbage, as here: what a login leaves has to be found while it is young
    garbage: tuple[int, int, int] = field(default_factory=gc.get_threshold)


@dataclass(frozen=True)
class Reply:
    """How a request ended."""

    lines: int  # how many lines its answer has: the last ones that were sent, without signs of life and large data
    used_password: bool
    host_key: tuple[str, str] | None
    ends: Ends


class SharedTransport:
    """A transport whose connections are those of so many workers; see `SshTransport`."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        policies: Mapping[str, PinnedKey],
        sudo: SudoPassword,
        tell: Callable[[str], None],
        count: int,
    ) -> None:
        self.sudo = sudo
        self.worker_of: dict[str, Worker] = {}
        self.replies: dict[str, Reply] = {}
        for hosts in shares(routes, count):
            needed = {*hosts, *(relay.host for host in hosts for relay in routes[host].relays)}
            known = {host: policy for host, policy in policies.items() if host in needed}
            mine = Share({host: routes[host] for host in hosts}, known, count)
            self.worker_of.update(dict.fromkeys(hosts, Worker(mine, tell)))

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        """Send a request, and return the lines of the answer; see `Transport`."""
        return self.ask("call", host, request, heard=heard)

    def ask(
        self, method: str, host: str, *arguments: Any, heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        """Have the transport in a host's worker do something, and raise its error here; the lines of an answer."""

        def attempt(password: str) -> tuple[tuple[Line, ...], bool]:
            reply, lines = self.worker_of[host].ask(method, host, arguments, password, heard)
            self.replies[host] = reply
            return lines, reply.used_password

        return self.sudo.log_in(attempt)

    def install_python(self, host: str) -> None:
        """Install python3 on a host; see `Transport`."""
        self.ask("install_python", host)

    def log_in_again(self, host: str) -> None:
        """Log in anew; see `Transport`."""
        self.ask("log_in_again", host)

    def host_key(self, host: str) -> tuple[str, str] | None:
        """The public SSH host key that a host showed with its last answer; `None` for none yet."""
        return self.replies[host].host_key if host in self.replies else None

    def ends(self, host: str) -> Ends:
        """The IP addresses at the ends of the connection of a host's last answer."""
        return self.replies[host].ends if host in self.replies else Ends()

    def close(self) -> None:
        """Close all connections, and end the workers."""
        workers = tuple(dict.fromkeys(self.worker_of.values()))
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.wait()


def shares(routes: Mapping[str, Route], count: int) -> Iterator[tuple[str, ...]]:
    """The hosts of each of so many workers; a relay and those behind it are in one, since they share its connection."""
    groups = grouped((route.relays[0].host if route.relays else host, host) for host, route in routes.items())
    parts: list[list[str]] = [[] for _ in range(count)]
    for group in sorted(groups.values(), key=len, reverse=True):
        min(parts, key=len).extend(group)
    yield from (tuple(part) for part in parts if part)


class Worker:
    """A process with the connections to some hosts; it starts with the first request, and ends with this program."""

    def __init__(self, share: Share, tell: Callable[[str], None]) -> None:
        self.share = share
        self.tell = tell
        self.numbers = itertools.count()
        self.waiting: dict[int, SimpleQueue[tuple[str, Any]]] = {}
        self.starting, self.sending = threading.Lock(), threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.pipe: Connection | None = None

    def start(self) -> Connection:
        """The pipe to the process, which is started if it is not there yet."""
        with self.starting:
            if self.pipe is None:
                self.pipe, theirs = Pipe()
                # In a session of its own, Ctrl-C reaches this program alone, which then closes all connections.
                self.process = subprocess.Popen(
                    surroundings.python(BOOT, str(theirs.fileno())), stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()], start_new_session=True,
                )  # fmt: skip
                theirs.close()
                self.pipe.send(self.share)
                threading.Thread(target=self.read, args=(self.pipe,), daemon=True, name="worker").start()
            return self.pipe

    def ask(
        self, method: str, host: str, arguments: tuple[Any, ...], password: str, heard: Callable[[Line], None]
    ) -> tuple[Reply, tuple[Line, ...]]:
        """Have the worker's transport do something for a host; how it ended, and the lines of the answer.

        Raises its error, or ConnectionLost if it has ended.
        """
        number, answers, lines = next(self.numbers), SimpleQueue[tuple[str, Any]](), list[Line]()
        self.waiting[number] = answers
        try:
            self.send((number, method, (host, *arguments), password))
            while True:
                kind, value = answers.get()
                if kind == DONE:
                    return value, tuple(lines[len(lines) - value.lines :])
                if kind == FAILED:
                    raise value or ConnectionLost(host, "the process that held its connection has ended.")
                if kind == TURN:
                    give_up_turn()
                    continue
                heard(value)
                if "piece" in value:
                    self.send((number, TAKEN, (), ""))
                elif "alive" not in value:
                    lines.append(value)
        finally:
            del self.waiting[number]

    def send(self, message: tuple[int, str, tuple[Any, ...], str]) -> None:
        """Send a message; where the worker has ended, all that wait are told."""
        pipe = self.start()
        try:
            with self.sending:
                pipe.send(message)
        except OSError:
            self.tell_end()

    def read(self, pipe: Connection) -> None:
        """Hand out what the worker sends, until it ends."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, kind, value = pipe.recv()
                if kind == TELL:
                    self.tell(value)
                elif number in self.waiting:
                    self.waiting[number].put((kind, value))
        with self.sending:  # a closed descriptor may soon be another file's
            pipe.close()
        self.tell_end()

    def tell_end(self) -> None:
        """Tell all that wait that the worker has ended."""
        for answers in tuple(self.waiting.values()):
            answers.put((FAILED, None))

    def end(self) -> None:
        """Have the process close its connections and end."""
        if self.pipe is not None:
            with contextlib.suppress(OSError):
                self.pipe.send(None)

    def wait(self) -> None:
        """Wait until the process has ended; one that does not end is killed."""
        if self.process is not None:
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
