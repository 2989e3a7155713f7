"""The home directory of a user of the cluster: made once, and not changed afterwards."""

from __future__ import annotations

import os
import shutil
from typing import ClassVar, FrozenSet

from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State

SKELETON = "/etc/skel"
"""The initial content of a new home (useradd(8))."""


class PersonHome(Resource):
    """A home directory that other users cannot read; an existing one is not changed.

    The home may be on a shared file system where all hosts make it at the same time. Each host makes a directory under
    a name of its own with a `.ssh` in it; rename(2) does not replace a directory that is not empty, so one host wins.

    Args:
        user: user name.
        uid: the user's UID.
        gid: GID of the user's primary group.
        home: path of the home directory.
    """

    kind: ClassVar[str] = "person-home"
    user: str
    uid: int
    gid: int
    home: str

    def name(self) -> str:
        """The path."""
        return self.home

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The home exists."""
        return {"home": "there"}

    def actual(self, context: Context) -> State:
        """Whether the home exists; one of another user gives a remark."""
        try:
            status = os.stat(context.path(self.home))
        except FileNotFoundError:
            return {}
        if status.st_uid != self.uid:
            context.remark = "%s belongs to UID %d and not to %s (UID %d); it was not changed" % (
                self.home, status.st_uid, self.user, self.uid
            )  # fmt: skip
        return {"home": "there"}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Make the home under a temporary name beside its path, and rename it.

        Raises:
            ResourceFailed: root is not allowed to make it, or a symbolic link to nowhere has its path.
        """
        home = context.path(self.home)
        if os.path.islink(home):
            raise ResourceFailed("%s is a symbolic link whose target does not exist" % self.home)
        parent = os.path.dirname(home)
        new = os.path.join(parent, ".slurmfab-%s-%s" % (self.user, os.uname().nodename))
        try:
            os.makedirs(parent, exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new, 0o700)
            self.fill(context, new)
        except PermissionError as error:
            raise ResourceFailed(
                "%s cannot be made: %s. If the file server denies root access, make it on the server, with owner UID %d"
                % (self.home, error.strerror, self.uid)
            ) from error
        try:
            os.rename(new, home)
        except OSError:
            shutil.rmtree(new)
            if not os.path.isdir(home):
                raise

    def fill(self, context: Context, new: str) -> None:
        """Copy the skeleton, and change the owner of all files to the user, of the directory itself last."""
        skeleton = context.path(SKELETON)
        if os.path.isdir(skeleton):
            shutil.copytree(skeleton, new, symlinks=True, dirs_exist_ok=True)
            os.chmod(new, 0o700)
        os.makedirs(os.path.join(new, ".ssh"), 0o700, exist_ok=True)
        for folder, folders, files in os.walk(new):
            for name in (*folders, *files):
                os.chown(os.path.join(folder, name), self.uid, self.gid, follow_symlinks=False)
        os.chown(new, self.uid, self.gid)
