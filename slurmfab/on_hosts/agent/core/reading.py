"""Reading small files of a host; files that are missing or cannot be read count as empty.

A read never waits: what is no regular file, such as a FIFO in the place of a key, counts as empty too.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, Iterator, List

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
MOST_BYTES = 64 << 20  # the most bytes of a file that are read

PIECE_BYTES = 65536
MADE_BY_SLURMFAB = "# Made by slurmfab"  # the beginning of each file that slurmfab writes


def read_bytes(path: str) -> bytes:
    """The content of a regular file; empty when it cannot be read."""
    pieces: List[bytes] = []
    try:
        descriptor = os.open(path, FLAGS)
        try:
            is_file, left = stat.S_ISREG(os.fstat(descriptor).st_mode), MOST_BYTES
            while is_file and left > 0:
                piece = os.read(descriptor, min(left, PIECE_BYTES))
                if not piece:
                    break
                pieces.append(piece)
                left -= len(piece)
        finally:
            os.close(descriptor)
    except OSError:
        return b""
    return b"".join(pieces)


def all_may_read(descriptor: int, top: str = "/") -> bool:
    """Whether every user can read an open file: by its mode, and by those of the directories on the way from `top`."""
    if not os.fstat(descriptor).st_mode & stat.S_IROTH:
        return False
    place = os.path.dirname(os.readlink("/proc/self/fd/%d" % descriptor))
    while place not in ("/", top):
        if not os.stat(place).st_mode & stat.S_IXOTH:
            return False
        place = os.path.dirname(place)
    return True


def read_text(path: str) -> str:
    """The text of a file without surrounding white space; empty when it cannot be read."""
    return read_bytes(path).decode(errors="replace").strip()


def os_release(root: str) -> Dict[str, str]:
    """The fields of os-release(5) below a root, which has no slash at its end."""
    lines = (read_text(root + "/etc/os-release") or read_text(root + "/usr/lib/os-release")).splitlines()
    return {name: value.strip("\"'") for name, _, value in (line.partition("=") for line in lines)}


def sha256_of(path: str) -> str:
    """The SHA-256 digest of a file, of any size, in hexadecimal; OSError if it cannot be read."""
    import hashlib  # slow to import, and seldom needed

    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


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
    # Not splitlines, which splits at more characters than newlines: chfn(1) lets users put those into their line.
    for line in read_bytes(path).decode(errors="surrogateescape").split("\n"):
        if ":" in line and not line.startswith(("#", "+", "-")):
            yield line.split(":")
