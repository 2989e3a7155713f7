"""The log of a daemon that is root: no link and no second name of a file, which would lead root elsewhere."""

from __future__ import annotations

import stat
from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, is_roots, open_parent, user

SAFE = {"file": "leads nowhere else"}


class RootLog(Resource):
    """A log that a daemon writes as root, or the place for one, where no other user has put anything."""

    kind: ClassVar[str] = "root-log"
    named_by: ClassVar[str] = "path"
    wanted_state: ClassVar[State] = SAFE
    path: str  # absolute path of the log

    def actual(self, context: Context) -> State:
        """The same, or what is there instead; ResourceFailed if a directory on the way is another user's link."""
        try:
            folder, name = open_parent(context.path(self.path))
        except FileNotFoundError:
            return SAFE
        with folder:
            return {"file": led_elsewhere(folder, name) or SAFE["file"]}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove what another user has put there; ResourceFailed if one can do so again in that directory."""
        folder, name = open_parent(context.path(self.path))
        with folder:
            what = led_elsewhere(folder, name)
            if what and folder.others:
                raise ResourceFailed(
                    "%s is %s. A daemon that is root would write there, and %s can put that there again. See who made "
                    "it and why, it may be an attack; then rm %s" % (self.path, what, folder.others, self.path)
                )
            if what:
                folder.unlink(name)
                context.remark = "%s was %s, through which root would have written; it was removed. %s" % (
                    self.path, what, "See who made it and why, it may be an attack"
                )  # fmt: skip


def led_elsewhere(folder: Folder, name: str) -> str:
    """What a name is if a daemon that writes to it may write to another file; empty if it is safe.

    What another user has made counts also where only root can change names by now: the directory may have been theirs.
    """
    status = folder.find(name)
    if status is None or (stat.S_ISLNK(status.st_mode) and is_roots(status) and not folder.others):
        return ""
    owner = "" if is_roots(status) else " of %s" % user(status.st_uid)
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link%s to %s" % (owner, folder.target(name))
    if not stat.S_ISREG(status.st_mode):
        return "no regular file%s" % owner
    return "a hard link to another file%s" % owner if status.st_nlink > 1 else ""
