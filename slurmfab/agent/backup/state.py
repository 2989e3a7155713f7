"""Parts of a backup made of files: slurmctld's state, saved while slurmctld runs, and the files of /etc/slurm.

slurmctld replaces each state file by a rename, so an open file is complete. Job scripts are in separate directories,
hash.N/job.ID. They are read before and after the list of jobs, so that every listed job has its script in the copy.
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

from slurmfab.agent.backup.pieces import Sink, compressed
from slurmfab.agent.client import commands
from slurmfab.agent.core.resource import Context, ResourceFailed

JOB_LIST = "job_state"
SCRIPT_DIRECTORIES = re.compile(r"hash\.\d+(/|$)")
IGNORED = re.compile(r"(\.|heartbeat$|.*\.new$)")
"""Names in the state directory that are not state: the heartbeat file, unfinished files, and hidden ones."""

WRITTEN_SECONDS = 30.0
"""Time that slurmctld gets to write its newest job: usually 5 s (save_state thread), more on slow disks."""

ENDED_STATES = (
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    "REVOKED",
)  # fmt: skip
"""States of jobs that have ended (squeue(1), JOB STATE CODES)."""


def save_state(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save slurmctld's state.

    Args:
        request: `directory`: StateSaveLocation.
        context: runs programs.
        sink: gets a compressed tar of the state.

    Returns:
        `next_job_id`: the next job's id by this state; 0 if no job was ever submitted. `jobs`: ids of the jobs that had
        not ended; `None` if no slurmctld answered.

    Raises:
        ResourceFailed: there is no state, or slurmctld does not write it in time.
    """
    directory = context.path(request["directory"])
    if not os.path.isdir(directory):
        raise ResourceFailed("there is no directory %s with slurmctld's state" % request["directory"])
    known = known_jobs(context)
    seen: Set[str] = set()
    with as_owner(directory), compressed(sink) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for name in files_below(directory):
            if name != JOB_LIST:
                add(tar, directory, name, seen)
        saved = 0
        with contextlib.ExitStack() as stack:
            jobs = written_jobs(os.path.join(directory, JOB_LIST), max(known or (), default=0))
            if jobs is not None:
                stack.enter_context(jobs)
                saved = job_id(jobs)
                put(tar, JOB_LIST, jobs)
        for name in files_below(directory):
            if SCRIPT_DIRECTORIES.match(name):
                add(tar, directory, name, seen)
    unended = None
    if known is not None:
        unended = [number for number, state in sorted(known.items()) if state not in ENDED_STATES]
    return {"next_job_id": saved, "jobs": unended}


def save_files(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save the files below a directory; links are replaced by the files they point to.

    Args:
        request: `directory`: its path.
        context: knows where files are.
        sink: gets a compressed tar of the files.

    Returns:
        `files`: the number of saved files.
    """
    directory = context.path(request["directory"])
    seen: Set[str] = set()
    with compressed(sink) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for name in files_below(directory, hidden=True):
            add(tar, directory, name, seen, follow=True)
    return {"files": len(seen)}


def known_jobs(context: Context) -> Optional[Dict[int, str]]:
    """The states of all jobs that slurmctld knows, by job id; `None` if no slurmctld answers."""
    try:
        if not commands.any_answers(context.run(commands.PING).stdout.decode(errors="replace")):
            return None
        return {int(number): state for number, state in commands.jobs(("JobID", "State"), "--states=all").ask(context)}
    except ResourceFailed:
        return None


def written_jobs(path: str, newest: int) -> Optional[BinaryIO]:
    """Wait until slurmctld has written a job to its list, and open the list.

    Args:
        path: of the list.
        newest: the job's id; 0 for none.

    Returns:
        The open file; `None` if there is no list and no job.

    Raises:
        ResourceFailed: the job is not written in time.
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
            text = "slurmctld has not written job %d to %s within %.0f s; is that disk full or slow?"
            raise ResourceFailed(text % (newest, path, WRITTEN_SECONDS))
        time.sleep(0.2)


def job_id(file: BinaryIO) -> int:
    """The next job's id from slurmctld's list of jobs; the file is rewound.

    The list begins with the text PROTOCOL_VERSION, a version, a time and that id (job_mgr.c, dump_all_job_state(), the
    same from 22.05 to 26.05).

    Raises:
        ResourceFailed: the file is not such a list.
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
        raise ResourceFailed("%s is not a list of jobs as slurmctld writes it" % JOB_LIST) from None


@contextlib.contextmanager
def as_owner(directory: str) -> Iterator[None]:
    """Access a directory as its owner if root may not read it: a file server may deny root any access."""
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
    """Sorted paths of the files below a directory, relative to it.

    Args:
        directory: its path.
        hidden: whether to include the names in `IGNORED`.
    """
    found = []
    for folder, folders, names in os.walk(directory):
        if not hidden:
            folders[:] = [name for name in folders if not IGNORED.match(name)]
        wanted = [name for name in names if hidden or not IGNORED.match(name)]
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in wanted]
    return sorted(found)


def add(tar: tarfile.TarFile, directory: str, name: str, seen: Set[str], follow: bool = False) -> None:
    """Add a regular file to a tar, if it still exists and was not added before.

    Args:
        tar: the tar.
        directory: the directory that is saved.
        name: the file's path in it.
        seen: paths already added; gets this one.
        follow: whether to follow symbolic links.
    """
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
    """Add an open file with its present metadata.

    Args:
        tar: the tar.
        name: the file's path in it.
        file: the open file.
    """
    status = os.fstat(file.fileno())
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), stat.S_IMODE(status.st_mode)
    info.uid, info.gid = status.st_uid, status.st_gid
    tar.addfile(info, file)
