"""The directory on a compute node's own disk that has those of jobs."""

from __future__ import annotations

import os
import time
from typing import ClassVar, List, Optional

from slurmfab.on_hosts.agent.core import json_objects, removal
from slurmfab.on_hosts.agent.core.host_paths import SCRATCH_SETTINGS
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, make_itself, open_itself, remove_empty
from slurmfab.on_hosts.agent.files.directory import OF_FILE_SYSTEM
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, access_text, gid_of, uid_of
from slurmfab.on_hosts.agent.scratch import job_directories

ACCESS = "root:root 0755"
FORMER = " (former)"  # in a state, behind the path of a directory that the cluster file no longer has for jobs
REMOVAL_SECONDS = 120.0  # how long directories of ended jobs are removed in one run; the next one goes on


class ScratchDirectory(Resource):
    """A directory of root's for those of jobs; without a path, none is left, unless others have files there.

    Which one a host has had so far is in the settings of the prolog, which are written and removed after this.
    The directories of jobs that still run stay where they are, and nothing is changed before these jobs have ended.
    """

    kind: ClassVar[str] = "scratch-directory"
    path: str  # absolute path; empty for none
    mount: str = ""  # the mount point of the cluster file that it is on; empty for none

    def name(self) -> str:
        """The path; `none` without one."""
        return self.path or "none"

    def settings(self, context: Context) -> State:
        """The settings that the host has; empty without any."""
        return json_objects.read(context.path(SCRATCH_SETTINGS))

    def former(self, context: Context) -> str:
        """The path that the host has had so far, if it is another one; empty for none."""
        path = self.settings(context).get("path")
        return path if isinstance(path, str) and path.startswith("/") and path != self.path else ""

    def wanted(self, context: Context) -> State:
        """The directory, and none of the former one."""
        former = self.former(context)
        return {**({self.path: ACCESS} if self.path else {}), **({former + FORMER: None} if former else {})}

    def actual(self, context: Context) -> State:
        """What is there. Raises ResourceFailed if something else is there, or jobs still use the former one."""
        former = self.former(context)
        state = {former + FORMER: self.rest(context, former)} if former else {}
        if self.path:
            state[self.path] = self.access(context)
        return state

    def access(self, context: Context) -> Optional[str]:
        """Owner, group and mode, `None` if missing; ResourceFailed if another's so far, or not on a local disk."""
        folder = open_itself(context.path(self.path))
        if folder is None:
            return None
        with folder:
            if self.settings(context).get("path") != self.path:
                refuse_foreign(context, self.path, folder)
            reason = job_directories.wrong_place(context, self.path, self.mount)
            if reason and not self.mount:
                raise ResourceFailed("%s: name another directory (scratch.path)" % reason)
            return reason or access_text(context, folder.status, "root", "root")

    def rest(self, context: Context, former: str) -> Optional[str]:
        """What is left of the former directory, but others' files, or `None`; ResourceFailed if jobs still use it."""
        folder = open_itself(context.path(former))
        if folder is None:
            return None
        with folder:
            there = job_directories.names(folder)
            running = self.running(context, folder, there) if there else []
            if running:
                raise ResourceFailed(
                    "%s is kept: it has the directory of job %s, which runs here. Wait for the end of the jobs, or "
                    "drain the node, and deploy again" % (former, ", ".join(running))
                )
            others = [name for name in folder.names() if name != removal.GONE and name not in there]
            is_ours = bool(there) or folder.find(removal.GONE) is not None
            is_removable = not others and not is_mount_point(context, former)
            return "of no job that runs here" if is_ours or is_removable else None

    def running(self, context: Context, folder: Folder, there: List[str]) -> List[str]:
        """Ids of jobs with a directory that run here, by their steps, else by Slurm: ResourceFailed if it is silent."""
        node = str(self.settings(context).get("node", ""))
        ended = set(job_directories.unused(context, folder, node))
        return [job for job in there if job not in ended]

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Remove the former, if empty of others' files, and make it; ResourceFailed if unmounted, or it fails."""
        former = self.former(context)
        if former and former + FORMER in differing:
            remove(context, former)
        if self.path and self.path in differing:
            reason = job_directories.wrong_place(context, self.path, self.mount)
            if reason:
                raise ResourceFailed(reason)
            folder = make_itself(context.path(self.path))
            with folder:
                if self.settings(context).get("path") != self.path:
                    refuse_foreign(context, self.path, folder)
                folder.set_access(uid_of(context, "root"), gid_of(context, "root"), 0o755)


def refuse_foreign(context: Context, path: str, folder: Folder) -> None:
    """Raise ResourceFailed where files of others would be taken for those of jobs, or could be exchanged.

    Args:
        context: tells the names of users.
        path: of the directory, as in the cluster file; the root of a new file system is nobody's yet.
    """
    if folder.intruder or (folder.others and set(folder.names()) - set(OF_FILE_SYSTEM)):
        raise ResourceFailed(
            "%s is there already, and %s can change it (%s). Name a directory for jobs alone (scratch.path), or make "
            "this one root's, with mode 0755"
            % (path, folder.others, "%(owner)s %(mode)s" % access_of(context, folder.status, "root", "root"))
        )
    names = job_directories.names(folder)
    if names:
        raise ResourceFailed(
            "%s is there already, and has files that are named as jobs (%s). Name a directory for jobs alone "
            "(scratch.path), or move them away" % (path, ", ".join(names[:4]))
        )


def is_mount_point(context: Context, path: str) -> bool:
    """Whether a file system is mounted at a path."""
    found = job_directories.mount_of(context, path)
    return found is not None and found.path == path


def remove(context: Context, path: str) -> None:
    """Remove the directories of jobs, then their directory if it is empty; ResourceFailed if that fails."""
    folder = open_itself(context.path(path))
    if folder is None:
        return
    with folder:
        for job in job_directories.names(folder):
            removal.set_aside(folder, job)
        left = removal.empty(folder, time.monotonic() + REMOVAL_SECONDS)
        if left:
            raise ResourceFailed("not removed: %s" % left)
        if folder.find(removal.GONE) is not None:
            os.rmdir(removal.GONE, dir_fd=folder.descriptor)
    if not is_mount_point(context, path):
        remove_empty(context.path(path))
