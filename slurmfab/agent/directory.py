"""A directory."""

from __future__ import annotations

import os
from typing import ClassVar

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, group_name, uid_of, user_name
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State


class Directory(Resource):
    """A directory with this owner and mode; what is in it is not looked at.

    A symbolic link to a directory counts as one: spool directories are often moved to a larger disk this way.

    Args:
        path: absolute; missing directories above it are made, root's and 0755.
        owner: user name.
        group: group name.
        mode: permission bits.
    """

    kind: ClassVar[str] = "directory"
    path: str
    owner: str = "root"
    group: str = "root"
    mode: int = 0o755

    def name(self) -> str:
        """The path."""
        return self.path

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Owner, group and mode."""
        return {"owner": self.owner, "group": self.group, "mode": "%04o" % self.mode}

    def actual(self, context: Context) -> State:
        """The same of the directory that is there; nothing when there is none.

        Raises:
            ResourceFailed: something else is there.
        """
        path = context.path(self.path)
        if not os.path.lexists(path):
            return {}
        if not os.path.isdir(path):
            raise ResourceFailed("%s is no directory; move it away if a directory may take its place" % path)
        status = os.stat(path)
        return {
            "owner": user_name(context, status.st_uid, self.owner),
            "group": group_name(context, status.st_gid, self.group),
            "mode": "%04o" % (status.st_mode & 0o7777),
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make it, or set who may use it."""
        path = os.path.realpath(context.path(self.path))
        uid, gid = uid_of(context, self.owner), gid_of(context, self.group)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
        replace.change_access(path, uid, gid, self.mode, is_directory=True)
