"""A child process of the agent that works in the homes of users, with a deadline for each answer.

A home may be on a file server that does not answer, and then whoever touches it waits, for hours if need be. So the
agent itself touches no home: it asks this child, kills it when it is late, and starts another one for the next home.
One child serves all homes, since a new one for each would cost a host with hundreds of users too much.
"""

from __future__ import annotations

import errno
import marshal
import os
import select
import signal
import time
from typing import Any, Optional, Set, Tuple

from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.people.home_files import TASKS, Account

PATIENCE_SECONDS = 5.0  # the time limit of the first answer
LEAST_PATIENCE_SECONDS = 0.2  # the time limit of each answer after many late ones; it is halved by each

NO_ANSWER = "it does not answer; is its file server up?"

DEAD = frozenset(
    {errno.ETIMEDOUT, errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENODEV}
)
"""Errors of a file system whose server or disk is gone, in contrast to what a user does to the own home."""

HEADER_BYTES = 4
CLOSED_UP_TO = 4096
"""File descriptors up to this one are closed in the child: it must not hold the host's lock, or the SSH channel."""


class HomeTrouble(Exception):
    """Something in a home that slurmfab cannot read or write, and the error number, or 0."""

    def __init__(self, cause: str, errno: int = 0) -> None:
        super().__init__(cause)
        self.errno = errno


class HomeWorker:
    """The child process; it is started when it is first asked.

    Attributes:
        patience: seconds until the next answer is late.
        silent: homes that did not answer; nothing more is asked about them.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.patience = PATIENCE_SECONDS
        self.silent: Set[str] = set()
        self.requests = self.answers = -1

    def ask(self, task: str, account: Account, home: str, *rest: Any) -> Any:
        """Have a task of `home_files` done as a home's UID and GID; HomeTrouble if it failed, or was late."""
        if home in self.silent:
            raise HomeTrouble(NO_ANSWER, errno.ETIMEDOUT)
        if not self.pid:
            self.start()
        frame = pack((task, account, home, *rest))
        try:
            answer = self.exchange(frame, time.monotonic() + self.patience)
        except OSError:
            answer = None
        if answer is None:
            self.stop()
            self.silent.add(home)
            self.patience = max(LEAST_PATIENCE_SECONDS, self.patience / 2)
            raise HomeTrouble(NO_ANSWER, errno.ETIMEDOUT)
        is_done, value = answer
        if not is_done:
            raise HomeTrouble(reason(OSError(*value)), value[0])
        return value

    def exchange(self, frame: bytes, deadline: float) -> Any:
        """Send a request, and return the answer; `None` if there is none by the deadline."""
        while frame:
            if not select.select([], [self.requests], [], max(0.0, deadline - time.monotonic()))[1]:
                return None
            frame = frame[os.write(self.requests, frame[: select.PIPE_BUF]) :]
        return receive(self.answers, deadline)

    def start(self) -> None:
        """Start the child, and keep nothing of the agent open in it."""
        child_reads, self.requests = os.pipe()
        self.answers, child_writes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                detach(child_reads, child_writes)
                serve(child_reads, child_writes)
            finally:
                os._exit(0)
        os.close(child_reads)
        os.close(child_writes)

    def stop(self) -> None:
        """Kill the child; one that cannot die yet, as it waits for a file server, is left behind."""
        if not self.pid:
            return
        os.close(self.requests)
        os.close(self.answers)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, os.WNOHANG)
        self.pid = 0


def detach(reading: int, writing: int) -> None:
    """Close all files of the agent in its child, apart from two pipes, and its signal handlers and umask."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    first, second = sorted((reading, writing))
    os.closerange(3, first)
    os.closerange(first + 1, second)
    os.closerange(second + 1, CLOSED_UP_TO)
    os.umask(0o022)


def serve(reading: int, writing: int) -> None:
    """Carry out tasks until the agent closes its end, or ends."""
    while True:
        request = receive(reading)
        if request is None:
            return
        try:
            answer: Tuple[bool, Any] = (True, TASKS[request[0]](*request[1:]))
        except OSError as error:
            answer = (False, (error.errno or 0, error.strerror or str(error), name_of(error)))
        except Exception as error:  # the agent reports it as this home's trouble
            answer = (False, (0, "%s: %s" % (type(error).__name__, error), ""))
        data = pack(answer)
        while data:
            data = data[os.write(writing, data) :]


def name_of(error: OSError) -> str:
    """The file that an error is about, without the names of our own open directories."""
    name = str(error.filename or "")
    return "" if name.startswith("/proc/self/fd/") else name


def pack(value: Any) -> bytes:
    """A value with its length in front."""
    data = marshal.dumps(value)
    return len(data).to_bytes(HEADER_BYTES, "big") + data


def receive(reading: int, deadline: Optional[float] = None) -> Any:
    """The next value from a pipe; `None` at its end or at the deadline."""
    header = read_exactly(reading, HEADER_BYTES, deadline)
    body = header and read_exactly(reading, int.from_bytes(header, "big"), deadline)
    return marshal.loads(body) if body else None  # noqa: S302 - our own child wrote it, or the agent


def read_exactly(reading: int, size: int, deadline: Optional[float]) -> bytes:
    """Exactly `size` bytes from a pipe; empty at its end or at the deadline."""
    data = b""
    while len(data) < size:
        if deadline is not None and not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b""
        piece = os.read(reading, size - len(data))
        if not piece:
            return b""
        data += piece
    return data


worker = HomeWorker()  # the one of this process
