"""The home directory of a user of the cluster: made once, and not changed afterwards."""

from __future__ import annotations

import os
from typing import ClassVar, FrozenSet

from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.people.home_worker import DEAD, HomeTrouble, worker

SKELETON = "/etc/skel"  # the initial content of a new home (useradd(8))


class PersonHome(Resource):
    """A home directory that other users cannot read; an existing one is not changed.

    The home may be on a shared file system where all hosts make it at the same time. Each host makes a directory under
    a name of its own with a `.ssh` in it; rename(2) does not replace a directory that is not empty, so one host wins.
    """

    kind: ClassVar[str] = "person-home"
    named_by: ClassVar[str] = "home"
    user: str
    uid: int
    gid: int
    home: str

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The home exists."""
        return {"home": "there"}

    def actual(self, context: Context) -> State:
        """Whether the home exists, remarking on another's or a closed one; ResourceFailed if its mount is broken."""
        try:
            owner = worker.ask("owner", (self.uid, self.gid), context.path(self.home))
        except HomeTrouble as trouble:
            text = "the home of %s, %s, cannot be reached: %s" % (self.user, self.home, trouble)
            if trouble.errno in DEAD:
                raise ResourceFailed(text) from None
            context.remark = text
            return {"home": "there"}
        if owner is None:
            return {}
        if owner != self.uid:
            context.remark = "%s belongs to UID %d and not to %s (UID %d); it was not changed" % (
                self.home, owner, self.user, self.uid
            )  # fmt: skip
        return {"home": "there"}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Make the home under a temporary name, and rename it; LeftAsItWas if root must not, or at a dead link."""
        home, temporary = context.path(self.home), ".slurmfab-%s-%s" % (self.user, os.uname().nodename)
        try:
            worker.ask("make home", (self.uid, self.gid), home, temporary, context.path(SKELETON))
        except HomeTrouble as trouble:
            raise LeftAsItWas(
                "the home of %s, %s, cannot be made: %s. Make it by hand, with owner UID %d; on the file server, if "
                "that denies root access" % (self.user, self.home, trouble, self.uid)
            ) from None
