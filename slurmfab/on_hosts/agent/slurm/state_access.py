"""Owners and modes of slurmctld's state, with which slurmctld can read and write it."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, List

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, Opened, open_folder, set_access
from slurmfab.on_hosts.agent.identities.users_and_groups import find_group, find_user
from slurmfab.on_hosts.agent.services.slurmctld_state import DIRECTORY_MODE, FILE_MODE, Fault, described, faults
from slurmfab.on_hosts.agent.slurm.state_versions import HEADER_BYTES, refusal, written_by

JOB_LIST = "job_state"
USABLE = "as the slurm user needs it"

ROUNDS = 4  # how often the directory is read: what is in a closed directory is seen once that is open


class StateAccess(Resource):
    """State of which the slurm user can read and write every file, since slurmctld would start without its jobs.

    Owners and modes are mended. What else is in the way, such as a read-only file system, is refused, before slurmctld
    is stopped or started.
    """

    kind: ClassVar[str] = "slurm-state-access"
    named_by: ClassVar[str] = "path"
    wanted_state: ClassVar[State] = {"access": USABLE}
    path: str
    version: str = ""  # of the installed Slurm, which has to be able to read it
    user: str = "slurm"  # of slurmctld

    def actual(self, context: Context) -> State:
        """Files that slurm cannot use, and access; ResourceFailed if access does not help, or Slurm is too old."""
        unreadable = refusal(self.path, written_by(self.job_list(context)), self.version)
        if unreadable:
            raise ResourceFailed(unreadable)
        found = self.faults(context)
        fixed = [one for one in found if not one.mendable]
        if fixed:
            text = "slurmctld cannot use its state in %s: %s. It would start without its jobs, so change that first"
            raise ResourceFailed(text % (self.path, described(self.path, fixed)))
        return {"access": described(self.path, found) if found else USABLE}

    def job_list(self, context: Context) -> bytes:
        """The beginning of slurmctld's list of jobs; empty if there is none."""
        try:
            with open_folder(context.path(self.path)) as folder:
                descriptor = folder.open(JOB_LIST)
        except (FileNotFoundError, PermissionError):
            return b""
        if descriptor is None:
            return b""
        with Opened(descriptor):
            return os.read(descriptor, HEADER_BYTES)

    def faults(self, context: Context) -> List[Fault]:
        """What of the state the slurm user cannot use; empty while there is no such user."""
        user = find_user(context, self.user)
        return faults(context.path(self.path), user.pw_uid, user.pw_gid) if user else []

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Give files to the slurm user, readable and writable; ResourceFailed for hard links, or OSError."""
        user = find_user(context, self.user)
        group = find_group(context, self.user)
        for _ in range(ROUNDS if user else 0):
            found = [one for one in self.faults(context) if one.mendable]
            if not found or user is None:
                return
            with open_folder(context.path(self.path)) as folder:
                for one in found:
                    mend(folder, one.path, user.pw_uid, user.pw_gid if group is None else group)


def mend(folder: Folder, path: str, uid: int, gid: int) -> None:
    """Give a file or a directory to a user who then can read and write it; one that has vanished is left out.

    `path`: relative to that; no link is followed. Raises ResourceFailed if a file of somebody else has several hard
    links, so that it may be a file of another place.
    """
    first, _, rest = path.partition("/")
    status = folder.find(first)
    if status is None:
        return
    if stat.S_ISDIR(status.st_mode):
        with folder.enter(first) as inner:
            if rest:
                mend(inner, rest, uid, gid)
            else:
                inner.set_access(uid, gid, stat.S_IMODE(inner.status.st_mode) | DIRECTORY_MODE)
        return
    descriptor = folder.open(first)
    if descriptor is None:
        return
    with Opened(descriptor):
        status = os.fstat(descriptor)
        if status.st_nlink > 1 and status.st_uid != uid:
            text = "%s has %d hard links, so it is not given to the slurm user; see what it is: find / -samefile %s"
            raise ResourceFailed(text % (folder.place(first), status.st_nlink, folder.place(first)))
        set_access(descriptor, uid, gid, status.st_mode & 0o777 | FILE_MODE)
