"""Directories of jobs on a node's own disk, by id, in one of root's, safe from what users swap."""

from __future__ import annotations

import os
import re
import stat
from typing import Collection, List, Optional, Set

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import mounts, removal
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import Folder, UnsafePath, open_itself
from slurmfab.on_hosts.agent.nodes import job_processes

SLURM_SECONDS = 15.0  # time limit of the question which jobs a node has

_JOB = re.compile(r"[1-9][0-9]{0,9}")


def is_job(name: str) -> bool:
    """Whether a name is the id of a job, as SLURM_JOB_ID has it."""
    return bool(_JOB.fullmatch(name))


def opened(context: Context, path: str) -> Folder:
    """Open the jobs' directory, where root alone can change names; ResourceFailed, OSError otherwise."""
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
    """Why jobs' directories may not be at a path, as on a file system that nodes share; empty if they may."""
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
    restarted and runs the prolog again. `gid`: of its user; -1 for root's. Raises OSError, ResourceFailed if it cannot
    be made.
    """
    status = base.find(job)
    if status is not None:
        if stat.S_ISDIR(status.st_mode) and status.st_uid == uid and job in jobs_with_steps(context):
            return
        removal.set_aside(base, job)
    with base.make(job, 0o700) as made:
        made.set_access(uid, gid, 0o700)


def jobs_with_steps(context: Context) -> Set[str]:
    """The ids of the jobs of which a step runs on this host."""
    return {str(step).partition(".")[0] for step in job_processes.read({}, context)["steps"]}


def unused(context: Context, base: Folder, node: str, spared: Collection[str] = ()) -> List[str]:
    """Ids of directories' jobs that no longer run here, but spared; Slurm is asked without a step."""
    there = [name for name in names(base) if name not in spared]
    here = jobs_with_steps(context) if there else set()
    without_step = [name for name in there if name not in here]
    if not without_step:
        return []
    rows = commands.jobs(("JobID",), *commands.on_nodes(node)).ask(context, SLURM_SECONDS)
    known = {row[0].strip() for row in rows}
    return [name for name in without_step if name not in known]
