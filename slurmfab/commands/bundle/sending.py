"""Sending package files to many hosts over the SSH connections that are open already.

The files come from a bundle (`slurmfab.commands.bundle.pushing`), or lie beside the cluster file
(`commands.bundle.sending_files`). Their pieces are read when they are sent, so memory does not grow with their sizes.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from slurmfab.base.archive import format_size
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.core.engine.requests import apply_request
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run

Answer = TypeVar("Answer")

PIECE_BYTES = 256 * 1024
"""Bytes that one request sends to a host: with 64 hosts at once, the program takes about 180 MB of memory."""

PROGRESS_SECONDS = 30.0  # without a terminal, a line of progress is printed at most this often


class PackageFile(NamedTuple):
    """A file that is sent to a host."""

    name: str
    size: int  # in bytes
    sha256: str  # its checksum, which the host compares after the last piece
    pieces: Iterable[tuple[int, bytes]]  # its bytes, each piece with its offset


class SentBytes:
    """Counts the bytes that were sent to all hosts, and shows the progress. `run`: the run whose progress is shown."""

    def __init__(self, run: Run) -> None:
        self.progress = run.progress
        self.lock = threading.Lock()
        self.begun = self.last_line = time.monotonic()
        self.sent = 0

    def add(self, size: int) -> None:
        """Count bytes that a host has stored."""
        with self.lock:
            before, self.sent = self.sent, self.sent + size
            self.progress.doing = f"pushing packages ({format_size(self.sent)} so far)"
            if before >> 22 != self.sent >> 22:
                self.progress.show_status()
            if not self.progress.is_terminal and time.monotonic() - self.last_line > PROGRESS_SECONDS:
                self.last_line = time.monotonic()
                self.progress.line(f"{self.progress.doing}; {len(self.progress.waiting)} hosts are not done yet")

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun


def send_to_each(run: Run, hosts: Collection[str], send: Callable[[str, SentBytes], Answer]) -> dict[str, Answer]:
    """Send packages to many hosts at the same time.

    `send`: sends packages to one of them, and counts their bytes. Returns what `send` returned, by host; excluded hosts
    are missing. Raises InputError if a bundle or a file cannot be read any more.
    """
    sent, answers = SentBytes(run), dict[str, Answer]()
    run.progress.begin("pushing packages", hosts)
    for host, answer in on_each(hosts, lambda host: send(host, sent)):
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            answers[host] = answer
            run.progress.host_done(host)
    if sent.sent:
        run.progress.line(f"Pushed {format_size(sent.sent)} of packages to {fold(hosts)} ({sent.seconds:.1f} s).")
    return answers


def send_file(run: Run, host: str, digest: str, file: PackageFile, sent: SentBytes) -> None:
    """Send a host one package file.

    `digest`: of the bundle, or of the files that are sent together. Raises HostError if the host cannot be reached, or
    cannot store the file. Raises InputError if the file cannot be read any more.
    """
    for offset, data in file.pieces:
        is_last = offset + len(data) == file.size
        step = {"do": "write", "file": file.name, "at": offset, "sha256": file.sha256 if is_last else ""}
        request_step(run, host, digest, {**step, "data": base64.b64encode(data).decode()})
        sent.add(len(data))


def request_step(run: Run, host: str, digest: str, step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask a host for a step of `slurmfab.on_hosts.agent.packages.bundle_staging`; HostError if it fails."""
    who = apply_request(run, (), dry_run=False)["who"]
    lines = run.transport.call(host, {"op": "bundle", "who": who, "bundle": digest, **step})
    return dict(answer_value(host, lines, "bundle"))
