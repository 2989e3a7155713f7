"""Reading a file as a whole, up to a size: no pipe and no device, which might never end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from slurmfab.base.errors import BrokenFile


def read(path: Path, most_bytes: int) -> bytes:
    """The bytes of a regular file, also behind links; BrokenFile if it is another, or larger; OSError."""
    with opened(path) as file:
        return read_open(file, path, most_bytes)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A context with a regular file, also behind links; BrokenFile if it is another, such as a pipe; OSError."""
    with open(path, "rb", opener=without_waiting) as file:
        refuse_special(file, path)
        yield file


def refuse_special(file: BinaryIO, path: Path) -> os.stat_result:
    """What is known of an open file; BrokenFile if it is no regular one."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise BrokenFile(path, "it is not a regular file")
    return status


def read_open(file: BinaryIO, path: Path, most_bytes: int) -> bytes:
    """The bytes of an open file, with the errors of `read`."""
    status = refuse_special(file, path)
    # A file of /proc has content, but no size.
    data = file.read(min(status.st_size or most_bytes, most_bytes) + 1)
    if len(data) > most_bytes or status.st_size > most_bytes:
        raise BrokenFile(path, f"it has more than {most_bytes >> 20} MiB")
    return data


def without_waiting(path: str, flags: int) -> int:
    """Open a file as `open` asks its opener to; a pipe that nobody writes to is opened at once."""
    return os.open(path, flags | os.O_NONBLOCK)
