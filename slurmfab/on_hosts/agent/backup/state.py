"""Parts of a backup made of files: slurmctld's state, saved while slurmctld runs, and the files of /etc/slurm.

slurmctld replaces each state file by a rename, so an open file is complete. Job scripts are in separate directories,
hash.N/job.ID. They are read before and after the list of jobs, so that every listed job has its script in the copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import struct
import tarfile
import time
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from slurmfab.on_hosts.agent.backup.pieces import Sink, compressed
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.account import acting_as
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import MAX_LINKS, Folder, UnsafePath, open_folder, open_parent

JOB_LIST = "job_state"
SCRIPT_DIRECTORIES = re.compile(r"hash\.\d+(/|$)")
IGNORED = re.compile(r"(\.|heartbeat$|.*\.new$)")
"""Names in the state directory that are not state: the heartbeat file, unfinished files, and hidden ones."""

WRITTEN_SECONDS = 30.0
"""Time that slurmctld gets to write its newest job: usually 5 s (save_state thread), more on slow disks."""

SAVE_SECONDS = 8.0
"""Time that it gets to write that a job has begun; a list that is still older then has nothing to tell."""

ENDED_STATES = (
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    "REVOKED",
)  # fmt: skip
"""States of jobs that have ended (squeue(1), JOB STATE CODES)."""


def save_state(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save slurmctld's state.

    Args:
        request: `directory`: StateSaveLocation.

    Returns:
        `next_job_id`: the next job's id by this state; 0 if no job was ever submitted. `jobs`: ids of the jobs that had
        not ended; `None` if no slurmctld answered.

    Raises:
        ResourceFailed: there is no state, or slurmctld does not write it in time.
    """
    try:
        with open_folder(context.path(request["directory"])) as folder:
            directory = folder.path
    except (FileNotFoundError, NotADirectoryError):
        raise ResourceFailed("there is no directory %s with slurmctld's state" % request["directory"]) from None
    known = known_jobs(context)
    seen: Set[str] = set()
    with as_owner(directory), compressed(sink) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for name in files_below(directory):
            if name != JOB_LIST:
                add(tar, directory, name, seen)
        saved = 0
        with contextlib.ExitStack() as stack:
            jobs = written_jobs(os.path.join(directory, JOB_LIST), known or {})
            if jobs is not None:
                stack.enter_context(jobs)
                saved = job_id(jobs)
                put(tar, JOB_LIST, jobs)
        for name in files_below(directory):
            if SCRIPT_DIRECTORIES.match(name):
                add(tar, directory, name, seen)
    unended = None
    if known is not None:
        unended = [number for number, job in sorted(known.items()) if job.state not in ENDED_STATES]
    return {"next_job_id": saved, "jobs": unended}


def save_files(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save the `files` (number) below `directory`; of links what they point to."""
    seen: Set[str] = set()
    with compressed(sink) as file, tarfile.open(fileobj=file, mode="w|") as tar, contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(open_folder(context.path(request["directory"])))
        except FileNotFoundError:
            return {"files": 0}
        for path, folder, name in directory.walk():
            with contextlib.suppress(OSError, ResourceFailed), followed(folder, name) as saved:
                put(tar, path, saved)
                seen.add(path)
    return {"files": len(seen)}


def followed(folder: Folder, name: str, links: int = 0) -> BinaryIO:
    """A file, or what its link leads to, open; ResourceFailed if it is not regular, or a link not root's."""
    status = folder.find(name)
    if status is not None and stat.S_ISLNK(status.st_mode) and links < MAX_LINKS:
        parent, last = open_parent(os.path.join(folder.path, folder.link(name)))
        with parent:
            return followed(parent, last, links + 1)
    descriptor = folder.open(name)
    if descriptor is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder.place(name))
    return os.fdopen(descriptor, "rb")


class KnownJob(NamedTuple):
    """A job as slurmctld knows it."""

    state: str  # as squeue(1) prints it
    begun: float  # when it began, in seconds since 1970; 0 for one that waits


def begun_at(state: str, stamp: str) -> float:
    """When a job began by squeue(1)'s StartTime, in seconds since 1970; 0 while it waits (an estimate)."""
    return 0.0 if state == "PENDING" else commands.moment(stamp) or 0.0


def known_jobs(context: Context) -> Optional[Dict[int, KnownJob]]:
    """All jobs that slurmctld knows, by job id; `None` if no slurmctld answers."""
    try:
        if not commands.any_answers(context.run(commands.PING).stdout.decode(errors="replace")):
            return None
        rows = commands.jobs(("JobID", "State", "StartTime"), "--states=all").ask(context)
        return {int(number): KnownJob(state, begun_at(state, stamp)) for number, state, stamp in rows}
    except ResourceFailed:
        return None


def written_jobs(path: str, known: Mapping[int, KnownJob]) -> Optional[BinaryIO]:
    """Wait until slurmctld has written its newest job, and which jobs run, to its list, and open the list.

    A restored job that runs and is pending in the list would be ended. `known`: the jobs that slurmctld knows, by job
    id. Returns the open file; `None` if there is no list and no job. Raises ResourceFailed if the job is not written in
    time.
    """
    newest, begun = max(known, default=0), max((job.begun for job in known.values()), default=0.0)
    deadline, settled = time.monotonic() + WRITTEN_SECONDS, time.monotonic() + SAVE_SECONDS
    while True:
        try:
            file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        except FileNotFoundError:
            if not newest:
                return None
        else:
            # Without jobs the next id is 0. A list of the second in which a job began may be older than that.
            tells_begin = list_time(file) > begun or time.monotonic() > settled
            if (not newest or job_id(file) > newest) and tells_begin:
                return file
            file.close()
        if time.monotonic() > deadline:
            text = "slurmctld has not written job %d to %s within %.0f s; is that disk full or slow?"
            raise ResourceFailed(text % (newest, path, WRITTEN_SECONDS))
        time.sleep(0.2)


def job_id(file: BinaryIO) -> int:
    """The next job's id from slurmctld's list of jobs, then rewound; ResourceFailed if the file is no list."""
    return list_header(file)[2]


def list_time(file: BinaryIO) -> int:
    """When slurmctld wrote its list of jobs, then rewound, in seconds since 1970; ResourceFailed if it is none."""
    return list_header(file)[1]


def list_header(file: BinaryIO) -> Tuple[int, int, int]:
    """The protocol's version, the time in seconds since 1970 and the next job's id from slurmctld's list of jobs.

    The list begins with the text PROTOCOL_VERSION and these numbers (job_mgr.c, dump_all_job_state(), the same from
    22.05 to 26.05). The file is rewound. Raises ResourceFailed if the file is not such a list.
    """
    file.seek(0)
    start = file.read(64)
    file.seek(0)
    try:
        (length,) = struct.unpack_from(">I", start)
        if start[4 : 4 + length] != b"PROTOCOL_VERSION\0":
            raise ValueError
        version, written, number = struct.unpack_from(">HQI", start, 4 + length)
    except (struct.error, ValueError):
        raise ResourceFailed("%s is not a list of jobs as slurmctld writes it" % JOB_LIST) from None
    return version, written, number


@contextlib.contextmanager
def as_owner(directory: str) -> Iterator[None]:
    """Work in a directory as its owner, if that is not root.

    So no link and no swap of names below it gives the owner more than the owner has anyway; and a file server may deny
    root any access. Raises UnsafePath if a link leads to the directory; or it is root's, and another user can replace
    it.
    """
    with open_folder(directory) as folder:
        owner, group, intruder = folder.status.st_uid, folder.status.st_gid, folder.intruder
    if os.geteuid() != 0 or owner == 0:
        if intruder and os.geteuid() == 0:
            raise UnsafePath("%s belongs to root, and %s can replace it; see what it is" % (directory, intruder))
        yield
        return
    with acting_as(owner, group):
        yield


def files_below(directory: str) -> List[str]:
    """Sorted paths of the files below a directory, relative to it, without the names in `IGNORED`."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not IGNORED.match(name)]
        wanted = [name for name in names if not IGNORED.match(name)]
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in wanted]
    return sorted(found)


def add(tar: tarfile.TarFile, directory: str, name: str, seen: Set[str]) -> None:
    """Add a regular file to a tar, if it still exists and was not added before.

    `directory`: the directory that is saved. `name`: the file's path in it; one that slurmctld's user cannot read is
    not slurmctld's and left out. `seen`: paths already added; gets this one.
    """
    if name in seen:
        return
    path = os.path.join(directory, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except PermissionError:
        return
    except OSError:
        if os.path.islink(path) or not os.path.lexists(path):
            return
        raise
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            put(tar, name, file)
            seen.add(name)


def put(tar: tarfile.TarFile, name: str, file: BinaryIO) -> None:
    """Add an open file with its present metadata."""
    status = os.fstat(file.fileno())
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), stat.S_IMODE(status.st_mode)
    info.uid, info.gid = status.st_uid, status.st_gid
    tar.addfile(info, file)
