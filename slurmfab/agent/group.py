"""A group of a host."""

from __future__ import annotations

from typing import ClassVar, List

from slurmfab.agent.accounts import find_group
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

MOVE = "let slurmfab move them by --move-ids"


def prefix(context: Context) -> List[str]:
    """The option that points the tools of shadow(5) to a scratch root."""
    return [] if context.root == "/" else ["--prefix", context.root]


class Group(Resource):
    """A group with this GID; the GID of a group that is there is never changed, for files carry it.

    Args:
        group: its name.
        gid: its number.
        moved: whether a resource before this one gives it that number; a dry run takes it for given.
        system: whether it is a daemon's and not people's.
    """

    kind: ClassVar[str] = "group"
    group: str
    gid: int
    moved: bool = False
    system: bool = True

    def name(self) -> str:
        """The group's name."""
        return self.group

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The GID."""
        return {"gid": self.gid}

    def actual(self, context: Context) -> State:
        """The GID of the group that is there.

        Raises:
            ResourceFailed: it is another one.
        """
        gid = find_group(context, self.group)
        if gid is not None and self.moved and context.dry_run:
            return {"gid": self.gid}
        if gid not in (None, self.gid):
            raise ResourceFailed(
                "the group %s has GID %d here and should have %d; files carry the number, so it is not changed: "
                "%s, or give the cluster GID %d"
                % (self.group, gid, self.gid, MOVE if self.system else "use groupmod and chgrp yourself", gid)
            )
        return {"gid": gid}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make it, by groupadd(8)."""
        kind = ["--system"] if self.system else []
        context.must(["groupadd", *prefix(context), *kind, "--gid", str(self.gid), self.group])
