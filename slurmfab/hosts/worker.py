"""A process that holds the connections to some hosts; see `slurmfab.hosts.workers`."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from slurmfab.base.errors import SlurmfabError
from slurmfab.hosts import fan_out
from slurmfab.hosts.session import Line
from slurmfab.hosts.transport import PROXIES, SshTransport
from slurmfab.hosts.workers import DONE, FAILED, LINE, TAKEN, TELL, TURN, Reply, Share


def main() -> None:
    """Serve requests until the pipe, whose descriptor is the first argument, ends."""
    pipe = Connection(int(sys.argv[1]))
    share: Share = pipe.recv()
    gc.set_threshold(*share.garbage)
    gc.enable()
    server = Server(pipe, share)
    with contextlib.suppress(EOFError, OSError):
        while (message := pipe.recv()) is not None:
            server.take(*message)
    server.transport.close()
    os._exit(0)  # threads may still wait for hosts


class FarTurn:
    """The turn of a call, which the main process has."""

    def __init__(self, release: Callable[[], None]) -> None:
        self.release = release


class Server:
    """Does what the main process asks for, each request in a thread of its own."""

    def __init__(self, pipe: Connection, share: Share) -> None:
        self.pipe = pipe
        self.sending = threading.Lock()
        self.taken: dict[int, threading.Semaphore] = {}
        self.transport = SshTransport(share.routes, share.policies, tell=lambda line: self.send(0, TELL, line))
        self.transport.proxies = threading.BoundedSemaphore(max(1, PROXIES // share.workers))

    def take(self, number: int, method: str, arguments: tuple[Any, ...], password: str) -> None:
        """Begin with a request, or go on with one whose last line was taken."""
        if method == TAKEN:
            self.taken[number].release()
            return
        self.taken[number] = threading.Semaphore(0)
        threading.Thread(target=self.serve, args=(number, method, arguments, password), daemon=True).start()

    def serve(self, number: int, method: str, arguments: tuple[Any, ...], password: str) -> None:
        """Carry out a request, and send how it ended."""
        transport, host = self.transport, arguments[0]
        fan_out.take(FarTurn(lambda: self.send(number, TURN, None)))
        if password:
            transport.sudo.known = password
        more = (lambda line: self.heard(number, line),) if method == "call" else ()
        try:
            lines = getattr(transport, method)(*arguments, *more) or ()
            shown, ends = transport.host_key(host), transport.ends(host)
            self.send(number, DONE, Reply(len(lines), transport.sudo.is_accepted, shown, ends))
        except BaseException as error:  # it is raised in the main process
            self.send(number, FAILED, as_told(error))
        finally:
            del self.taken[number]

    def heard(self, number: int, line: Line) -> None:
        """Send a line of an answer; the next part of large data is read only once the last one was taken."""
        self.send(number, LINE, line)
        if "piece" in line:
            self.taken[number].acquire()

    def send(self, number: int, kind: str, value: Any) -> None:
        """Send a message; without a main process there is nobody to read it."""
        with self.sending, contextlib.suppress(OSError):
            self.pipe.send((number, kind, value))


def as_told(error: BaseException) -> SlurmfabError:
    """An error as it crosses to the main process: those of other kinds are bugs, whose text is kept."""
    return error if isinstance(error, SlurmfabError) else SlurmfabError(f"{type(error).__name__}: {error}")
