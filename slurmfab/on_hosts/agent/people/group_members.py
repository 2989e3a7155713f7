"""Users in a system group of a package, whose number belongs to the package and may differ between hosts."""

from __future__ import annotations

from typing import ClassVar, Dict, FrozenSet, Tuple

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

PREFIX, MEMBERS = "group-", 3
"""How the names of the records begin, before the name of the group; and the field of group(5) with its members."""

THERE, FORMER = "member", "former members"


class GroupMembers(Resource):
    """Users in a group that a package has made; the group itself stays as it is, and so do members of others."""

    kind: ClassVar[str] = "group-members"
    named_by: ClassVar[str] = "group"
    group: str
    # Names of the users; those whom an earlier cluster file had put there, and this one has not, leave it.
    members: Tuple[str, ...]

    @property
    def record_path(self) -> str:
        """The record of the members whom slurmfab has put there."""
        return "%s/%s%s.json" % (OWNED, PREFIX, self.group)

    def put_there(self, context: Context) -> FrozenSet[str]:
        """The members whom slurmfab has put there."""
        return frozenset(map(str, host_records.read(context, self.record_path).get("members", ())))

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The users of the cluster file as members, and no former ones."""
        return {**dict.fromkeys(self.members, THERE), FORMER: None}

    def actual(self, context: Context) -> State:
        """Which of them are members, and whom slurmfab has put there for an earlier cluster file."""
        there, former = members_of(context, self.group), self.put_there(context) - {*self.members}
        return {**{user: THERE for user in self.members if user in there}, FORMER: " ".join(sorted(former)) or None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Add and remove members one by one, recording added ones before; ResourceFailed if user or group is none."""
        before, added = self.put_there(context), differing & {*self.members}
        if added and self.group not in {fields[0] for fields in entries(context.path("/etc/group"))}:
            raise ResourceFailed("there is no group %s; is its package installed?" % self.group)
        self.note(context, before | added)
        for user in sorted(added):
            context.must(["gpasswd", "--add", user, self.group])
        for user in sorted((before - {*self.members}) & members_of(context, self.group)):
            context.must(["gpasswd", "--delete", user, self.group])
        self.note(context, (before | added) & {*self.members})

    def note(self, context: Context, members: FrozenSet[str]) -> None:
        """Keep the record; none for nobody."""
        host_records.write(context, self.record_path, {"members": sorted(members)} if members else {})


def members_of(context: Context, group: str) -> FrozenSet[str]:
    """The members of a group in the host's /etc/group; empty where there is no such group."""
    lists: Dict[str, str] = {
        fields[0]: fields[MEMBERS] for fields in entries(context.path("/etc/group")) if len(fields) > MEMBERS
    }
    return frozenset(name for name in lists.get(group, "").split(",") if name)
