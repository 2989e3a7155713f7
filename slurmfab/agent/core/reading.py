"""Reading small files of a host; files that are missing or cannot be read count as empty."""

from __future__ import annotations

import os
import stat
from typing import Iterator, List


def read_bytes(path: str) -> bytes:
    """The content of a file; empty when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def read_text(path: str) -> str:
    """The text of a file without surrounding white space; empty when it cannot be read."""
    return read_bytes(path).decode(errors="replace").strip()


def names(path: str) -> List[str]:
    """The names in a directory, sorted; empty when it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def is_device(path: str) -> bool:
    """Whether a path is a character device."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def entries(path: str) -> Iterator[List[str]]:
    """The lines of a colon-separated database, such as /etc/passwd (passwd(5)), as lists of fields."""
    for line in read_bytes(path).decode(errors="surrogateescape").splitlines():
        if ":" in line and not line.startswith(("#", "+", "-")):
            yield line.split(":")
