"""A group of a host."""

from __future__ import annotations

from typing import ClassVar, List

from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.users_and_groups import find_group

MOVE = "let `%s deploy --move-ids` change it" % FAB


def shadow_prefix(context: Context) -> List[str]:
    """The option that makes useradd(8), groupadd(8) and the like work below a scratch root; empty for `/`."""
    return [] if context.root == "/" else ["--prefix", context.root]


class Group(Resource):
    """A group with this GID; the GID of an existing group is never changed, because files carry it."""

    kind: ClassVar[str] = "group"
    named_by: ClassVar[str] = "group"
    group: str
    gid: int
    moved: bool = False  # whether an earlier resource changes the group's GID; a dry run then counts it as right
    system: bool = True  # whether a daemon uses the group; otherwise users of the cluster do

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The GID."""
        return {"gid": self.gid}

    def actual(self, context: Context) -> State:
        """The GID of the group on the host, `None` if it does not exist; ResourceFailed if it has another GID."""
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
        """Make the group by groupadd(8). Raises ResourceFailed if groupadd failed."""
        kind = ["--system"] if self.system else []
        context.must(["groupadd", *shadow_prefix(context), *kind, "--gid", str(self.gid), self.group])
