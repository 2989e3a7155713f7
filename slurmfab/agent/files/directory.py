"""A directory."""

from __future__ import annotations

import os
from typing import ClassVar

from slurmfab.agent.core import replace
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.identities.users_and_groups import access_of, gid_of, uid_of


class Directory(Resource):
    """A directory with this owner, group and mode; its content is not compared.

    A symbolic link to a directory counts as a directory, because spool directories are often moved to larger disks.

    Args:
        path: absolute path; missing directories above it are made with owner root and mode 0755.
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
        """Owner, group and mode of the directory on the host, empty where there is none.

        Raises:
            ResourceFailed: something that is not a directory has this path.
        """
        path = context.path(self.path)
        if not os.path.lexists(path):
            return {}
        if not os.path.isdir(path):
            raise ResourceFailed("%s is not a directory; move it away if a directory may take its place" % path)
        return access_of(context, os.stat(path), self.owner, self.group)

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make the directory, or set its owner, group and mode.

        Raises:
            ResourceFailed: the owner or the group does not exist.
        """
        path = os.path.realpath(context.path(self.path))
        replace.make_directory(path, uid_of(context, self.owner), gid_of(context, self.group), self.mode)
