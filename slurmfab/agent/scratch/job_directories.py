"""Directories of jobs on a compute node's own disk: one by the id of each job, in a directory that root alone changes.

Their users can swap everything in them at any moment, also while root removes it. So a job's directory is first moved
aside, to a place that only root can enter; there its directories are moved beside each other, one at a time, until each
has only files. So no link is followed, no depth is too large, and another file system that is mounted there stays: the
kernel refuses to move a mount point.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from typing import Collection, Dict, Iterator, List, Optional, Set

from slurmfab.agent.client import commands
from slurmfab.agent.core.resource import Context, ResourceFailed
from slurmfab.agent.core.safe_paths import Folder, Opened, UnsafePath, make_or_enter, open_itself
from slurmfab.agent.identities import mounts
from slurmfab.agent.nodes import job_processes

GONE = ".slurmfab-gone"
"""The directory beside those of jobs with what is being removed."""

SLURM_SECONDS = 15.0
"""Time limit of the question which jobs a node has."""

ROUND = 1000
"""After how many files the time limit of a removal is looked at."""

MOST_TURNS = 20
"""How often the files of one directory are removed in one go while a process makes new ones."""

_JOB = re.compile(r"[1-9][0-9]{0,9}")


def is_job(name: str) -> bool:
    """Whether a name is the id of a job, as SLURM_JOB_ID has it."""
    return bool(_JOB.fullmatch(name))


def opened(context: Context, path: str) -> Folder:
    """Open the directory that has those of jobs; nobody but root may change a name in it, or on the way to it.

    Raises:
        ResourceFailed, OSError: it is missing, or no such directory.
    """
    folder = open_itself(context.path(path))
    if folder is None:
        raise ResourceFailed("%s is missing" % path)
    if folder.others:
        with folder:
            raise UnsafePath(
                "%s can be changed by %s. It and all above it have to be root's, and writable for root alone"
                % (path, folder.others)
            )
    return folder


def mount_of(context: Context, path: str) -> Optional[mounts.Mount]:
    """The mounted file system that a path is on; `None` if that is not known."""
    real, root = os.path.realpath(context.path(path)), os.path.realpath(context.root)
    table = mounts.read(context.path("/proc/self/mountinfo"))
    return mounts.at(os.path.normpath("/" + os.path.relpath(real, root)), table)


def wrong_place(context: Context, path: str, mount: str) -> str:
    """Why directories of jobs may not be at a path now; empty if they may.

    Nodes that share a file system would remove each other's.

    Args:
        context: knows where /proc is.
        path: of the directory that has those of jobs.
        mount: the mount point of the cluster file that it is on; empty for none.
    """
    found = mount_of(context, path)
    if mount and (found is None or found.path != mount):
        return "%s is not mounted, so %s would be on another disk" % (mount, path)
    if found is not None and not found.is_local:
        return "%s is on %s (%s), which is no disk of this node alone" % (path, found.path, found.type)
    return ""


def names(base: Folder) -> List[str]:
    """The ids of the jobs that have something by their name there."""
    return [name for name in base.names() if is_job(name)]


def make(context: Context, base: Folder, job: str, uid: int, gid: int) -> None:
    """Make the directory of a job, for its user alone.

    What is there from an earlier run of the job goes; but it stays if a step of the job runs here, as when slurmd was
    restarted and runs the prolog again.

    Args:
        context: knows where /proc is.
        base: the directory that has those of jobs.
        job: its id.
        uid: of its user.
        gid: of its user; -1 for root's.

    Raises:
        OSError, ResourceFailed: it cannot be made.
    """
    status = base.find(job)
    if status is not None:
        if stat.S_ISDIR(status.st_mode) and status.st_uid == uid and job in jobs_with_steps(context):
            return
        set_aside(base, job)
    with base.make(job, 0o700) as made:
        made.set_access(uid, gid, 0o700)


def jobs_with_steps(context: Context) -> Set[str]:
    """The ids of the jobs of which a step runs on this host."""
    return {str(step).partition(".")[0] for step in job_processes.read({}, context)["steps"]}


def unused(context: Context, base: Folder, node: str, spared: Collection[str] = ()) -> List[str]:
    """The ids of jobs that have a directory and do not run on this node any more.

    Slurm is only asked if a job with a directory has no step here: it may be about to begin.

    Args:
        context: asks Slurm.
        base: the directory that has those of jobs.
        node: NodeName.
        spared: ids of jobs that are not looked at.

    Raises:
        ResourceFailed: Slurm does not answer.
    """
    there = [name for name in names(base) if name not in spared]
    here = jobs_with_steps(context) if there else set()
    without_step = [name for name in there if name not in here]
    if not without_step:
        return []
    rows = commands.jobs(("JobID",), "--nodelist=" + node).ask(context, SLURM_SECONDS)
    known = {row[0].strip() for row in rows}
    return [name for name in without_step if name not in known]


def set_aside(base: Folder, name: str) -> None:
    """Move something out of the way, to be removed; nothing if it is not there.

    Raises:
        OSError: it is a mount point, for example.
    """
    with make_or_enter(base, GONE) as gone:
        gone.set_access(mode=0o700)
        try:
            os.rename(name, fresh_name(), src_dir_fd=base.descriptor, dst_dir_fd=gone.descriptor)
        except FileNotFoundError:
            return


def fresh_name() -> str:
    """A name that nothing else has."""
    return "%d-%s" % (time.time_ns(), os.urandom(6).hex())


def empty(base: Folder, until: float) -> str:
    """Remove what was set aside; one process at a time, and another one then does it for this one.

    Args:
        base: the directory that has those of jobs.
        until: when to stop (monotonic clock).

    Returns:
        What could not be removed, and why; empty if nothing is left, or another process is at it.
    """
    try:
        gone = base.enter(GONE)
    except FileNotFoundError:
        return ""
    with gone, Opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=gone.descriptor)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
        stuck = remove_all(gone, until)
        return "; ".join("%s: %s" % (gone.place(name), why) for name, why in sorted(stuck.items()))


def remove_all(gone: Folder, until: float) -> Dict[str, str]:
    """Remove everything in a directory that only root can enter.

    Args:
        gone: the directory.
        until: when to stop (monotonic clock).

    Returns:
        Why something could not be removed, by name.
    """
    stuck: Dict[str, str] = {}
    turns: Dict[str, int] = {}
    while time.monotonic() < until:
        left = [name for name in gone.names() if name not in stuck]
        if not left:
            break
        for name in left:
            turns[name] = turns.get(name, 0) + 1
            try:
                take_apart(gone, name, until)
            except OSError as error:
                stuck[name] = error.strerror or str(error)
            if turns[name] == MOST_TURNS:
                stuck.setdefault(name, "somebody still writes there")
    return stuck


def take_apart(gone: Folder, name: str, until: float) -> None:
    """Remove a file, or the files of a directory; its directories are moved beside it, for another turn.

    A directory that somebody fills meanwhile is left for another turn, too.

    Raises:
        OSError: something cannot be removed or moved.
    """
    status = gone.find(name)
    if status is None or not stat.S_ISDIR(status.st_mode):
        gone.unlink(name)
        return
    with gone.enter(name) as inner:
        for number, one in enumerate(entries(inner)):
            if number % ROUND == 0 and time.monotonic() > until:
                return
            found = inner.find(one)
            if found is not None and stat.S_ISDIR(found.st_mode):
                os.rename(one, fresh_name(), src_dir_fd=inner.descriptor, dst_dir_fd=gone.descriptor)
            elif found is not None:
                unlink_file(inner, one)
        is_empty = not inner.names()
    if is_empty:
        try:
            os.rmdir(name, dir_fd=gone.descriptor)
        except FileNotFoundError:
            return


def unlink_file(folder: Folder, name: str) -> None:
    """Remove a file or a link; one that its user has just exchanged for a directory stays for another turn."""
    try:
        folder.unlink(name)
    except IsADirectoryError:
        return


def entries(folder: Folder) -> Iterator[str]:
    """Yield the names in a directory, however many there are."""
    with Opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.descriptor)) as descriptor:
        yield from os.listdir(descriptor)
