"""A configuration file of Slurm's, with the files that it includes in the places of their `Include` lines."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Callable, List

from slurmfab.on_hosts.agent.core.reading import read_bytes

INCLUDE = re.compile(rb"[ \t]*include[ \t]+([^\s#]+)", re.IGNORECASE)
CLUSTER = re.compile(rb"^[ \t]*ClusterName[ \t]*=[ \t]*\"?([^\s\"#]+)", re.IGNORECASE | re.MULTILINE)
CONTINUED = re.compile(rb"(?<!\\)(?:\\\\)*\\\s*$")
COMMENT = re.compile(rb"(?<!\\)#.*", re.DOTALL)

MOST_LEVELS = 8
MOST_FILES = 100  # how many files are read for one text; a file that includes itself ends there

MOST_BYTES = 4 << 20
"""The size of the largest file that is read; a slurm.conf of ten thousand nodes, each in a line, has less."""

TOO_LARGE = (
    "%s is not read, because it has %d bytes, and no file that slurm.conf includes needs more than %d. See what it is"
)
"""The remark on a file that is too large."""

Read = Callable[[str], bytes]  # returns the content of a file, empty if it cannot be read


def read_included(path: str) -> bytes:
    """The content of a file, unless it is too large."""
    try:
        return read_bytes(path)[: MOST_BYTES + 1] if os.stat(path).st_size <= MOST_BYTES else b""
    except OSError:
        return b""


def too_large(path: str, content: bytes) -> str:
    """A remark on the first file that this file includes and that is too large to read; empty for none."""
    found: List[str] = []

    def read(name: str) -> bytes:
        with suppress(OSError):
            size = os.stat(name).st_size
            if size > MOST_BYTES:
                found.append(TOO_LARGE % (name, size, MOST_BYTES))
        return read_included(name)

    whole(path, content, read)
    return found[0] if found else ""


def whole(path: str, content: bytes, read: Read = read_included) -> bytes:
    """The text of a file with all that it includes, as Slurm reads it (slurm.conf(5); parse_config.c).

    A relative name is relative to the directory of the file that has the line, and `%c` is the name of the cluster. A
    line stays as it is if its file is missing, empty or too large, or there are too many. `read`: reads the other
    files.
    """
    if len(content) > MOST_BYTES or b"nclude" not in content.lower():  # hosts without such a line are in a hurry
        return content
    seen: List[bytes] = []

    def expand(path: str, content: bytes, level: int) -> None:
        is_continued = False
        for line in content.splitlines(keepends=True):
            found = None if is_continued else INCLUDE.match(line)
            is_continued = bool(CONTINUED.search(COMMENT.sub(b"", line)))
            name = place(path, found[1]) if found else ""
            included = read(name) if found and level < MOST_LEVELS and len(read_files) < MOST_FILES else b""
            if not included:
                seen.append(line)
                continue
            read_files.append(name)
            expand(name, included if included.endswith(b"\n") else included + b"\n", level + 1)

    def place(path: str, name: bytes) -> str:
        if b"%c" in name:
            cluster = CLUSTER.search(b"".join(seen))
            name = name.replace(b"%c", cluster[1].lower() if cluster else b"%c")
        return os.path.join(os.path.dirname(path), os.fsdecode(name))

    read_files: List[str] = []
    expand(path, content, 0)
    return b"".join(seen)
