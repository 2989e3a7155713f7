"""Paths looked at by a child process, since whoever looks at a dead file server may never come back."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

STUCK = -1
"""The error of a path that did not answer in time, twice in a row."""

MOST_OPEN = 256
"""More files than the program ever has open."""

LATE = -2
"""The error of a path that has not answered this time, as on a busy node; the next look tells."""


class Answer(NamedTuple):
    """What a path had to say.

    Args:
        error: of errno(3), 0 for none, or `STUCK` or `LATE`.
        device: number of its file system.
        free: bytes that users may still write, of `size`.
        inodes_free: files that users may still make, of `inodes`; file systems without such a limit have 0.
        is_read_only: whether nothing can be written there.
    """

    error: int = 0
    device: int = 0
    free: int = 0
    size: int = 0
    inodes_free: int = 0
    inodes: int = 0
    is_read_only: bool = False


def probe(paths: Sequence[str], stuck: Dict[str, Any], seconds: float, deadline: float) -> Dict[str, Answer]:
    """Look at paths, each for a time.

    Args:
        paths: absolute.
        stuck: by path that was late the last time, PID and start of the child that did not come back; kept up to
            date. While that child is there, nobody else is sent.
        seconds: how long each may take.
        deadline: of the monotonic clock, at which all of it ends; what was not looked at by then is late.
    """
    hung = [path for path in paths if path in stuck and is_alive(*stuck[path])]
    found: Dict[str, Answer] = {path: Answer(STUCK if path in hung else LATE) for path in paths}
    waiting = [path for path in found if path not in hung]
    while waiting and time.monotonic() < deadline:
        pid, answers = send(waiting, seconds, deadline)
        for path, answer in zip(waiting, answers):  # noqa: B905 - zip(strict=) is Python 3.10's
            found[path] = answer
            stuck.pop(path, None)
        waiting = waiting[len(answers) :]
        if waiting:
            late = waiting.pop(0)
            found[late] = Answer(STUCK if late in stuck else LATE)
            stuck[late] = [pid, started(pid)]
    return found


def send(paths: Sequence[str], seconds: float, deadline: float) -> "tuple[int, List[Answer]]":
    """The PID of a child that looks at paths in order, and the answers until one is late; that child is killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            look(paths, writing)
        finally:
            os._exit(0)
    os.close(writing)
    text, answers = b"", []
    try:
        while True:
            left = max(0.0, min(seconds, deadline - time.monotonic()))
            if not select.select([reading], [], [], left)[0]:
                os.kill(pid, signal.SIGKILL)
                reap(pid)
                break
            chunk = os.read(reading, 65536)
            if not chunk:
                os.waitpid(pid, 0)
                break
            text += chunk
            *lines, text = text.split(b"\n")
            answers += [parsed(line) for line in lines]
    finally:
        os.close(reading)
    return pid, answers


def look(paths: Sequence[str], writing: int) -> None:
    """What the child does; it may stay for good, so it keeps nothing open that slurmd reads from, and no lock."""
    os.setsid()
    os.closerange(3, writing)
    os.closerange(writing + 1, MOST_OPEN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for path in paths:
        try:
            device, shown = os.stat(path).st_dev, os.statvfs(path)
            used = shown.f_blocks - shown.f_bfree
            is_read_only = shown.f_flag & os.ST_RDONLY
            numbers = (0, device, shown.f_bavail * shown.f_frsize, (used + shown.f_bavail) * shown.f_frsize,
                       shown.f_favail, shown.f_files, is_read_only)  # fmt: skip
        except OSError as error:
            numbers = (error.errno or errno.EIO, 0, 0, 0, 0, 0, 0)
        os.write(writing, b" ".join(b"%d" % number for number in numbers) + b"\n")


def parsed(line: bytes) -> Answer:
    """An answer in a line."""
    error, device, free, size, inodes_free, inodes, is_read_only = (int(word) for word in line.split())
    return Answer(error, device, free, size, inodes_free, inodes, bool(is_read_only))


def reap(pid: int) -> None:
    """Take leave of a child that was killed, unless it waits in the kernel and cannot die."""
    for _ in range(20):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.005)


def started(pid: int) -> Optional[str]:
    """When a process started, in ticks since the kernel's boot (proc(5)); `None` when there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else fields[19].decode()


def is_alive(pid: int, start: Optional[str]) -> bool:
    """Whether the process is there that had this number and start."""
    return start is not None and started(pid) == start
