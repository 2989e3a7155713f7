"""A person's home directory: made once, and then the person's own."""

from __future__ import annotations

import os
import shutil
from typing import ClassVar, FrozenSet

from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

SKELETON = "/etc/skel"
"""What a new home begins with (useradd(8))."""


class PersonHome(Resource):
    """A home directory, closed to others; one that is there is left as it is, whoever has made it.

    It may lie on a file system that all hosts share and where all make it at once: each makes one under a name of its
    own, and rename(2), which replaces no directory that has something in it, decides whose it is. Each has a `.ssh`.

    Args:
        user: whose.
        uid: the user's number.
        gid: that of the primary group.
        home: its path.
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
        """That it is there."""
        return {"home": "there"}

    def actual(self, context: Context) -> State:
        """Whether it is; of one that is somebody else's, there is a remark."""
        try:
            status = os.stat(context.path(self.home))
        except FileNotFoundError:
            return {}
        if status.st_uid != self.uid:
            context.remark = "%s belongs to UID %d and not to %s (UID %d); it was left as it is" % (
                self.home, status.st_uid, self.user, self.uid
            )  # fmt: skip
        return {"home": "there"}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Make it beside its place, and move it there.

        Raises:
            ResourceFailed: not even root may make it there.
        """
        home = context.path(self.home)
        if os.path.islink(home):
            raise ResourceFailed("%s is a symbolic link that leads nowhere" % self.home)
        parent = os.path.dirname(home)
        new = os.path.join(parent, ".slurmfab-%s-%s" % (self.user, os.uname().nodename))
        try:
            os.makedirs(parent, exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new, 0o700)
            self.fill(context, new)
        except PermissionError as error:
            raise ResourceFailed(
                "%s cannot be made: %s. Where a file server grants root nothing, make it there, owned by UID %d"
                % (self.home, error.strerror, self.uid)
            ) from error
        try:
            os.rename(new, home)
        except OSError:
            shutil.rmtree(new)
            if not os.path.isdir(home):
                raise

    def fill(self, context: Context, new: str) -> None:
        """Copy the skeleton, and give all of it to the user, the directory itself last."""
        skeleton = context.path(SKELETON)
        if os.path.isdir(skeleton):
            shutil.copytree(skeleton, new, symlinks=True, dirs_exist_ok=True)
            os.chmod(new, 0o700)
        os.makedirs(os.path.join(new, ".ssh"), 0o700, exist_ok=True)
        for folder, folders, files in os.walk(new):
            for name in (*folders, *files):
                os.chown(os.path.join(folder, name), self.uid, self.gid, follow_symlinks=False)
        os.chown(new, self.uid, self.gid)
