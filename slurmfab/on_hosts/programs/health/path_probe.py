"""Paths examined by a child process, because access to a dead file server may block a process forever."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

STUCK = -1  # `error` of a path that did not answer in time, twice in a row
MOST_OPEN = 256  # upper limit for the number of files that this program has open
LATE = -2  # `error` of a path that did not answer in time once, as on a busy node; the next run decides


class PathState(NamedTuple):
    """The state of a path."""

    error: int = 0  # errno(3), 0 for none, or `STUCK` or `LATE`
    device: int = 0
    free: int = 0  # bytes available to users
    size: int = 0  # bytes that users have or could have: used and available ones
    inodes_free: int = 0
    inodes: int = 0  # all inodes; 0 for a file system without a limit
    is_read_only: bool = False  # whether the file system is mounted read-only


def probe(paths: Sequence[str], stuck: Dict[str, Any], seconds: float, deadline: float) -> Dict[str, PathState]:
    """Examine paths, each within a time limit.

    Args:
        paths: absolute.
        stuck: by path that was late the last time, PID and start of its child process; updated. While that child still
            exists, no other one is started for the path.
        seconds: time limit for each path.
        deadline: of the monotonic clock, for all paths; paths not examined by then are late.

    Returns:
        The state of each path.
    """
    hung = [path for path in paths if path in stuck and is_alive(*stuck[path])]
    found: Dict[str, PathState] = {path: PathState(STUCK if path in hung else LATE) for path in paths}
    waiting = [path for path in found if path not in hung]
    while waiting and time.monotonic() < deadline:
        pid, answers = run_child(waiting, seconds, deadline)
        for path, answer in zip(waiting, answers):  # noqa: B905 - zip(strict=) is Python 3.10's
            found[path] = answer
            stuck.pop(path, None)
        waiting = waiting[len(answers) :]
        if waiting:
            late = waiting.pop(0)
            found[late] = PathState(STUCK if late in stuck else LATE)
            stuck[late] = [pid, start_of(pid)]
    return found


def run_child(paths: Sequence[str], seconds: float, deadline: float) -> "tuple[int, List[PathState]]":
    """Start a child that examines paths in order, and collect its answers; when one is late, the child is killed.

    Args:
        paths: absolute.
        seconds: time limit for each path.
        deadline: of the monotonic clock, for all paths.

    Returns:
        The child's PID, and the states of the first paths.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child_main(paths, writing)
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
            answers += [parse(line) for line in lines]
    finally:
        os.close(reading)
    return pid, answers


def child_main(paths: Sequence[str], writing: int) -> None:
    """Examine the paths, a line for each; may hang forever, so it keeps no file that slurmd reads, and no lock."""
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


def parse(line: bytes) -> PathState:
    """Parse one line of the child."""
    error, device, free, size, inodes_free, inodes, is_read_only = (int(word) for word in line.split())
    return PathState(error, device, free, size, inodes_free, inodes, bool(is_read_only))


def reap(pid: int) -> None:
    """Wait for a killed child, but not if it hangs in the kernel."""
    for _ in range(20):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.005)


def start_of(pid: int) -> Optional[str]:
    """When a process started, in ticks since the kernel's boot (proc(5)); `None` if there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else fields[19].decode()


def is_alive(pid: int, start: Optional[str]) -> bool:
    """Whether the process with this PID and start still exists."""
    return start is not None and start_of(pid) == start
