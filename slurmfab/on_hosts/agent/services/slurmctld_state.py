"""slurmctld's state: what slurm cannot use, and whether slurmctld has started without it, and empty."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import stat
import struct
from contextlib import suppress
from typing import Iterator, List, NamedTuple, Optional

from slurmfab.on_hosts.agent.core import safe_paths
from slurmfab.on_hosts.agent.core.account import acting_as
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

UNIT = "slurmctld"
SLURM_CONF = "/etc/slurm/slurm.conf"
SLURM_USER = re.compile(r"^[ \t]*SlurmUser[ \t]*=[ \t]*\"?([^\s\"#(]+)", re.IGNORECASE | re.MULTILINE)

LOCATION = re.compile(r"^[ \t]*StateSaveLocation[ \t]*=[ \t]*\"?([^\s\"#]+)", re.IGNORECASE | re.MULTILINE)

LOG_PATTERN = "Could not open [a-z ]*state (save )?file [^ ]+: "
"""slurmctld's error for state that it cannot read, as a regular expression, also of grep -E.

It is in job_mgr.c, node_mgr.c and others, the same from 22.05 to 26.05. A first start has no state, and says so in the
same words with `No such file or directory`.
"""

UNREAD = re.compile(LOG_PATTERN + "(?!No such file)")  # the same without those lines

STARTED = r"slurmctld version .* started|taking over"
"""slurmctld's words when it begins to load its state: at its start, and as a backup that takes over."""

LOADED = "Running as primary controller"
"""Its words when it has loaded all. Later it opens the same files to save them, with the same errors."""

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600  # what the slurm user has to be allowed
MAX_DEPTH = 32  # how deep directories may be nested; Slurm's state has two levels

IGNORED = re.compile(r"\.|lost\+found$|cred_state|job\d|.+_\d+\.\d+$|hwloc_topo|conf-cache$|.+\.(log|pid)(\W|$)")
"""Names in the state directory that are not slurmctld's: hidden ones, what a file system has for itself, and, where a
site has all in one place, what slurmd has in its own: credentials, jobs' scripts and steps, and logs."""

SHOWN = 3  # how many names a message has
GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS, which tells what lsattr(1) shows

FIXED_FLAGS = {0x10: "immutable", 0x20: "append-only"}
"""Attributes that keep root itself from replacing a file (chattr(1))."""


class Fault(NamedTuple):
    """A part of the state that the slurm user cannot use."""

    path: str  # relative to the state directory; `.` is the directory itself
    reason: str  # its owner, group and mode, or what else is in the way
    mendable: bool  # whether another owner or mode would do


def location(context: Context) -> str:
    """The StateSaveLocation in this host's slurm.conf; empty if there is none."""
    found = LOCATION.findall(read_text(context.path(SLURM_CONF)))
    return found[-1] if found else ""


def faults(directory: str, uid: int, gid: int) -> List[Fault]:
    """What of the state the slurm user cannot use; empty also if the directory does not exist.

    Everything is asked with the rights of that user, because a file server may deny root any access. `directory`: path
    of the state directory on this host.
    """
    with acting_as(uid, gid):
        try:
            status = os.stat(directory)
        except FileNotFoundError:
            return []
        except OSError:
            return [Fault(".", barrier(directory), False)]
        found = fault(directory, ".", status, uid)
        return [found] if found else list(faults_below(directory, "", uid))


def faults_below(directory: str, below: str, uid: int, depth: int = 0) -> Iterator[Fault]:
    """The faults below a directory; what slurmctld replaces meanwhile is no fault.

    `below`: its path relative to the state directory, with a slash at the end.
    """
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if IGNORED.match(entry.name):
                continue
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found = None if stat.S_ISLNK(status.st_mode) else fault(entry.path, below + entry.name, status, uid)
                if found:
                    yield found
                elif stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                    yield from faults_below(entry.path, "%s%s/" % (below, entry.name), uid, depth + 1)


def fault(path: str, name: str, status: os.stat_result, uid: int) -> Optional[Fault]:
    """Why the slurm user cannot use a file or directory; `None` if it can.

    slurmctld replaces files, for which it needs the directory and its own files alone. A file of its own that it may
    only read, such as a key, is meant so. `path`: absolute. `name`: relative to the state directory.
    """
    is_directory = stat.S_ISDIR(status.st_mode)
    wanted = DIRECTORY_MODE if is_directory else FILE_MODE
    is_own = status.st_uid == uid
    if can_use(path, is_directory, is_own and not status.st_mode & 0o200):
        return None
    if not os.path.lexists(path):
        return None
    mendable = not is_own or bool(~status.st_mode & wanted)
    return Fault(name, access(status) if mendable else obstacle(path), mendable)


def can_use(path: str, is_directory: bool, reads_only: bool) -> bool:
    """Whether the present effective user may read and write a file, or list and change a directory."""
    ways = os.R_OK | os.W_OK | os.X_OK if is_directory else os.R_OK if reads_only else os.R_OK | os.W_OK
    return os.access(path, ways, effective_ids=True)


def access(status: os.stat_result) -> str:
    """Owner and mode, such as `of root, mode 0600`."""
    return "of %s, mode %04o" % (safe_paths.user(status.st_uid), stat.S_IMODE(status.st_mode))


def obstacle(path: str) -> str:
    """Why a file of the right owner and mode cannot be changed."""
    with suppress(OSError):
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return "on a file system that is mounted read-only"
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            flags = struct.unpack("l", fcntl.ioctl(descriptor, GET_FLAGS, struct.pack("l", 0)))[0]
        finally:
            os.close(descriptor)
        for flag, word in FIXED_FLAGS.items():
            if flags & flag:
                return "%s (lsattr); chattr -%s %s" % (word, word[0], path)
    return "denied by an access control list or the file server"


def barrier(directory: str) -> str:
    """The directory above which the present user cannot enter."""
    above = directory
    while above != "/":
        above = os.path.dirname(above)
        with suppress(OSError):
            return "%s is %s, and the slurm user cannot enter it" % (above, access(os.stat(above)))
    return "the slurm user cannot enter a directory above it"


def described(directory: str, found: List[Fault]) -> str:
    """Faults in words, such as `job_state (of root, mode 0600), node_state (of root, mode 0600) and 5 more`."""
    names = ("%s (%s)" % (directory if one.path == "." else one_line(one.path), one.reason) for one in found)
    return listed(names, SHOWN)


def require_usable(context: Context) -> None:
    """Make sure, before each start, that slurmctld can read and write its state; else ResourceFailed."""
    directory = location(context)
    if not directory or context.root != "/":
        return
    try:
        named = SLURM_USER.findall(read_text(context.path(SLURM_CONF)))
        user = pwd.getpwnam(named[-1] if named else "slurm")
    except KeyError:
        return
    found = faults(directory, user.pw_uid, user.pw_gid)
    if found:
        raise ResourceFailed(
            "slurmctld was not started, because it would start without its jobs: the slurm user cannot use %s in %s"
            % (described(directory, found), directory)
        )


def unread_state(log: str) -> str:
    """The line of slurmctld's log since its start about state that it could not read; empty for none."""
    return next((line.strip() for line in loading(log) if UNREAD.search(line)), "")


def loading(log: str) -> List[str]:
    """The lines that slurmctld wrote while it loaded its state the last time.

    `log`: what slurmctld has logged since it started; with SlurmctldDebug=error it tells neither start nor end.
    """
    last = since_loading(log)
    return last[: next((number for number, line in enumerate(last) if LOADED in line), None)]


def since_loading(log: str) -> List[str]:
    """The lines since slurmctld began to load its state the last time."""
    lines = log.splitlines()
    begun = [number for number, line in enumerate(lines) if re.search(STARTED, line)]
    return lines[begun[-1] :] if begun else lines
