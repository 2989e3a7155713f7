"""The log of a daemon that is root: no link and no second name of a file, which would lead root elsewhere."""

from __future__ import annotations

import stat
from typing import ClassVar

from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.core.safe_paths import Folder, is_roots, open_parent, user

SAFE = {"file": "leads nowhere else"}


class RootLog(Resource):
    """A log that a daemon writes as root, or the place for one; what another user puts there is refused.

    Args:
        path: absolute path of the log.
    """

    kind: ClassVar[str] = "root-log"
    path: str

    def name(self) -> str:
        """The path."""
        return self.path

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """A file that has no other name, or none."""
        return SAFE

    def actual(self, context: Context) -> State:
        """The same.

        Raises:
            ResourceFailed: it is something else, which another user may have put there; or a directory on the way is a
                link of another user.
        """
        try:
            folder, name = open_parent(context.path(self.path))
        except FileNotFoundError:
            return SAFE
        with folder:
            what = led_elsewhere(folder, name)
            if what:
                raise ResourceFailed(
                    "%s is %s. A daemon that is root would write there, so nothing is changed here. %s can put such "
                    "things there: see who made it and why, it may be an attack; then rm %s"
                    % (self.path, what, folder.others, self.path)
                )
        return SAFE

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Nothing: what differs is an error already."""


def led_elsewhere(folder: Folder, name: str) -> str:
    """What a name is if a daemon that writes to it may write to another file; empty if it is safe.

    Args:
        folder: its directory.
        name: the name in it.
    """
    status = folder.find(name)
    if status is None or not folder.others:
        return ""
    owner = "" if is_roots(status) else " of %s" % user(status.st_uid)
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link%s to %s" % (owner, folder.target(name))
    if not stat.S_ISREG(status.st_mode):
        return "no regular file%s" % owner
    return "a hard link to another file%s" % owner if status.st_nlink > 1 else ""
