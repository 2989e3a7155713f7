"""A configuration file of Slurm's, with the files that it includes in the places of their `Include` lines."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Callable, List, Optional

from slurmfab.on_hosts.agent.core.reading import FLAGS, all_may_read, read_bytes

INCLUDE = re.compile(rb"[ \t]*include[ \t]+([^\s#]+)", re.IGNORECASE)
CLUSTER = re.compile(rb"^[ \t]*ClusterName[ \t]*=[ \t]*\"?([^\s\"#]+)", re.IGNORECASE | re.MULTILINE)
CONTINUED = re.compile(rb"(?<!\\)(?:\\\\)*\\\s*$")
COMMENT = re.compile(rb"(?<!\\)#.*", re.DOTALL)

MOST_LEVELS = 8
MOST_LINKS = 40  # how many links one path may have, as in the kernel (path_resolution(7))
OTHERS_WRITE = 0o022
MOST_FILES = 100  # how many files are read for one text; a file that includes itself ends there

MOST_BYTES = 4 << 20
"""The size of the largest file that is read; a slurm.conf of ten thousand nodes, each in a line, has less."""

TOO_LARGE = (
    "%s is not read, because it has %d bytes, and no file that slurm.conf includes needs more than %d. See what it is"
)
"""The remark on a file that is too large."""

Read = Callable[[str], bytes]  # returns the content of a file, empty if it cannot be read
Judge = Callable[[str, str], bool]  # whether a file may include another one


def read_included(path: str) -> bytes:
    """The content of a file, unless it is too large."""
    try:
        return read_bytes(path)[: MOST_BYTES + 1] if os.stat(path).st_size <= MOST_BYTES else b""
    except OSError:
        return b""


def may_include(path: str, name: str) -> bool:
    """Whether whoever could write a line into one file may read the file that it names.

    What slurm.conf includes gets to all hosts, to be read by everybody there. So root alone has written the line, or
    the file is of the same owner, or everybody may read it on this host as well.
    """
    by_root = of_roots_choice(path)
    if by_root and not by_root.st_uid and not by_root.st_mode & OTHERS_WRITE:
        return True
    return is_open_to(name, owner(path))


def conf_bytes(path: str) -> bytes:
    """The content of a file of Slurm's; empty if somebody but root has put a link or another's file in its place."""
    may_leave = of_roots_choice(path) or is_open_to(path, owner(os.path.dirname(path)))
    return read_bytes(path) if may_leave else b""


def of_roots_choice(path: str) -> Optional[os.stat_result]:
    """What is known of a file that root alone can exchange for another one, also by links; `None` for others."""
    waiting, here, links, own = path.split("/")[::-1], "/", 0, (0, os.geteuid())
    above = found = os.lstat(here)
    try:
        while waiting:
            name = waiting.pop()
            here = os.path.normpath(os.path.join(here, name))
            above, found = os.lstat(os.path.dirname(here)), os.lstat(here)
            is_link, is_file = stat.S_ISLNK(found.st_mode), not waiting
            # Where all may put files, as in /tmp, what is root's stays.
            is_shared = bool(above.st_mode & OTHERS_WRITE)
            if above.st_uid not in own or (is_shared and not above.st_mode & stat.S_ISVTX):
                return None
            if found.st_uid not in own and (is_link or not is_file or is_shared):
                return None
            if is_link:
                links += 1
                if links > MOST_LINKS:
                    return None
                here, target = os.path.dirname(here), os.readlink(here)
                here = "/" if target.startswith("/") else here
                waiting += target.split("/")[::-1]
    except OSError:
        return None
    return found


def is_open_to(path: str, uid: int) -> bool:
    """Whether everybody on this host may read a file, or it is of a user who is not root."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError:
        return False
    try:
        return all_may_read(descriptor) or 0 != os.fstat(descriptor).st_uid == uid
    finally:
        os.close(descriptor)


def owner(path: str) -> int:
    """The UID of a file or directory; root's if there is none."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return 0


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


def whole(path: str, content: bytes, read: Read = read_included, judge: Judge = may_include) -> bytes:
    """The text of a file with all that it includes, as Slurm reads it (slurm.conf(5); parse_config.c).

    A relative name is relative to the directory of the file that has the line, and `%c` is the name of the cluster. A
    line stays as it is if its file is missing, empty or too large, if who could write the line may not read the file,
    or there are too many. `read`: reads the other files. `judge`: see `may_include`.
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
            is_read = found and level < MOST_LEVELS and len(read_files) < MOST_FILES and judge(path, name)
            included = read(name) if is_read else b""
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
