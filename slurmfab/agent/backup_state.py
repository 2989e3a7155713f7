"""The files of a host that are saved: slurmctld's state, while slurmctld works on it, and those of /etc/slurm.

slurmctld replaces each file of its state by a rename, so a file that was opened is whole. Job scripts lie in
directories of their own, hash.N/job.ID. They are read before the list of jobs and after it, so that every job on the
list has its script in the copy.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
import tarfile
import time
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Set

from slurmfab.agent.backup_pieces import Sink, compressed
from slurmfab.agent.resource import Context, ResourceFailed

JOBS = "job_state"
SCRIPTS = re.compile(r"hash\.\d+(/|$)")
PASSED_OVER = re.compile(r"(\.|heartbeat$|.*\.new$)")
"""Names in the state directory that are no state: a sign of life, files that are being written, and what is hidden."""

WRITTEN_SECONDS = 30.0
"""How long slurmctld may take to write down the newest job: it does so within 5 s (save_state thread), on slow disks
later."""

ENDED = (
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    "REVOKED",
)  # fmt: skip
"""States of jobs that go on no more (squeue(1), JOB STATE CODES)."""


def save_state(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save slurmctld's state.

    Args:
        request: `directory`: StateSaveLocation.
        context: runs programs.
        sink: takes a compressed tar of it.

    Returns:
        `next_job_id`: the number that the next job gets by this state; 0 where no job was ever submitted. `jobs`: the
        numbers of those that had not ended; `None` where no slurmctld told.

    Raises:
        ResourceFailed: there is no state, or slurmctld does not write it down.
    """
    directory = context.path(request["directory"])
    if not os.path.isdir(directory):
        raise ResourceFailed("there is no directory %s with slurmctld's state" % request["directory"])
    told = jobs_told(context)
    seen: Set[str] = set()
    with as_owner(directory), compressed(sink) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for name in files_below(directory):
            if name != JOBS:
                add(tar, directory, name, seen)
        saved = 0
        with contextlib.ExitStack() as stack:
            jobs = written_jobs(os.path.join(directory, JOBS), max(told or (), default=0))
            if jobs is not None:
                stack.enter_context(jobs)
                saved = job_id(jobs)
                put(tar, JOBS, jobs)
        for name in files_below(directory):
            if SCRIPTS.match(name):
                add(tar, directory, name, seen)
    unended = None if told is None else [number for number, state in sorted(told.items()) if state not in ENDED]
    return {"next_job_id": saved, "jobs": unended}


def save_files(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save the files below a directory, with the content of what links there lead to.

    Args:
        request: `directory`: which.
        context: knows where.
        sink: takes a compressed tar of them.
    """
    directory = context.path(request["directory"])
    seen: Set[str] = set()
    with compressed(sink) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for name in files_below(directory, hidden=True):
            add(tar, directory, name, seen, follow=True)
    return {"files": len(seen)}


def jobs_told(context: Context) -> Optional[Dict[int, str]]:
    """The states of all jobs by their numbers, as slurmctld tells them; `None` where none answers."""
    try:
        if " is UP" not in context.run(["scontrol", "ping"]).stdout.decode(errors="replace"):
            return None
        shown = context.must(["squeue", "--all", "--noheader", "--states=all", "--format=%A %T"])
    except ResourceFailed:
        return None
    rows = (line.split() for line in shown.splitlines())
    return {int(row[0]): row[1] for row in rows if len(row) == len(("number", "state"))}


def written_jobs(path: str, newest: int) -> Optional[BinaryIO]:
    """The open list of jobs, once slurmctld has written down the one of this number; `None` without any.

    Raises:
        ResourceFailed: it does not.
    """
    deadline = time.monotonic() + WRITTEN_SECONDS
    while True:
        try:
            file = open(path, "rb")  # noqa: SIM115 - handed on
        except FileNotFoundError:
            if not newest:
                return None
        else:
            if job_id(file) > newest:
                return file
            file.close()
        if time.monotonic() > deadline:
            words = "slurmctld has not written job %d to %s within %.0f s; is that disk full or slow?"
            raise ResourceFailed(words % (newest, path, WRITTEN_SECONDS))
        time.sleep(0.2)


def job_id(file: BinaryIO) -> int:
    """The number of the next job in a list of jobs, which is read from its beginning.

    It begins with the text PROTOCOL_VERSION, a version, a time, and that number (job_mgr.c, dump_all_job_state(), the
    same from 22.05 to 26.05).

    Raises:
        ResourceFailed: this is no such list.
    """
    file.seek(0)
    start = file.read(64)
    file.seek(0)
    try:
        (length,) = struct.unpack_from(">I", start)
        if start[4 : 4 + length] != b"PROTOCOL_VERSION\0":
            raise ValueError
        return int(struct.unpack_from(">HQI", start, 4 + length)[2])
    except (struct.error, ValueError):
        raise ResourceFailed("%s is no list of jobs as slurmctld writes it" % JOBS) from None


@contextlib.contextmanager
def as_owner(directory: str) -> Iterator[None]:
    """Whoever owns a directory, where root may not look into it: a file server may grant root nothing."""
    try:
        os.listdir(directory)
    except PermissionError:
        status = os.stat(directory)
        os.setegid(status.st_gid)
        os.seteuid(status.st_uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
    else:
        yield


def files_below(directory: str, hidden: bool = False) -> List[str]:
    """The files below a directory, by their paths within it, sorted; some are passed over, if they are not wanted."""
    found = []
    for folder, folders, names in os.walk(directory):
        if not hidden:
            folders[:] = [name for name in folders if not PASSED_OVER.match(name)]
        wanted = [name for name in names if hidden or not PASSED_OVER.match(name)]
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in wanted]
    return sorted(found)


def add(tar: tarfile.TarFile, directory: str, name: str, seen: Set[str], follow: bool = False) -> None:
    """Add a regular file, if it is still there and was not added before."""
    if name in seen:
        return
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(os.path.join(directory, name), flags)
    except OSError:
        if follow or not os.path.lexists(os.path.join(directory, name)):
            return
        if os.path.islink(os.path.join(directory, name)):
            return
        raise
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            put(tar, name, file)
            seen.add(name)


def put(tar: tarfile.TarFile, name: str, file: BinaryIO) -> None:
    """Add an open file as it is now."""
    status = os.fstat(file.fileno())
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), stat.S_IMODE(status.st_mode)
    info.uid, info.gid = status.st_uid, status.st_gid
    tar.addfile(info, file)
