"""The Unix account of a user of the cluster on a host."""

from __future__ import annotations

from typing import ClassVar, FrozenSet, Tuple

from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.group import shadow_prefix
from slurmfab.on_hosts.agent.identities.user import HostUser
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of

CLOSED_SINCE = "1"  # the day since 1970 on which a closed account expired (shadow(5)); 0 would be ambiguous
EXPIRES = 7  # index of a field in /etc/shadow (shadow(5))


def is_closed(context: Context, user: str) -> bool:
    """Whether an account expired as `RemovedPerson` makes it expire, which no kind of login survives."""
    for fields in entries(context.path("/etc/shadow")):
        if fields[0] == user and len(fields) > EXPIRES:
            return fields[EXPIRES] == CLOSED_SINCE
    return False


class Person(HostUser):
    """A user without a password."""

    kind: ClassVar[str] = "person"
    comment: str = ""  # the full name; empty to accept any
    groups: Tuple[str, ...] = ()  # supplementary groups, which have to exist
    # All groups whose members slurmfab alone decides about; the user is removed from those not in `groups`.
    managed: Tuple[str, ...] = ()

    def wanted(self, context: Context) -> State:
        """UID, group, home, shell, the comment if one is set, and the supplementary groups."""
        comment = {"comment": self.comment} if self.comment else {}
        return {**super().wanted(context), **comment, "groups": ",".join(sorted(self.groups)) or None}

    def actual(self, context: Context) -> State:
        """The same of the user on the host, empty without one; ResourceFailed if UID or primary group differ."""
        found = super().actual(context)
        if not found:
            return {}
        if found["uid"] != self.uid or found["group"] != self.group:
            raise ResourceFailed(
                "the user %s has UID %d and the group %s here and should have UID %d and the group %s; files carry "
                "the numbers, so they are not changed: use usermod and chown yourself, or set the UID in the cluster "
                "file" % (self.user, found["uid"], found["group"], self.uid, self.group)
            )
        if is_closed(context, self.user):
            context.remark = (
                "the account %(user)s is locked and expired, as for somebody who leaves. If %(user)s stays: "
                "usermod --unlock --expiredate '' %(user)s" % {"user": self.user}
            )
        inside = groups_of(context, self.user) & {*self.managed, *self.groups}
        return {**found, "groups": ",".join(sorted(inside)) or None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Make the user, or change its line, then set groups; ResourceFailed of a group, useradd or usermod."""
        gid_of(context, self.group)
        if "uid" in differing:
            self.add(context, ["--comment", self.comment] if self.comment else [])
        elif differing - {"groups"}:
            self.edit_passwd(context, self.comment)
        if "groups" in differing:
            others = groups_of(context, self.user) - {*self.managed}
            groups = ",".join(sorted(others | {*self.groups}))
            context.must(["usermod", *shadow_prefix(context), "--groups", groups, self.user])


def groups_of(context: Context, user: str) -> FrozenSet[str]:
    """The groups in the host's /etc/group that list the user as a supplementary member."""
    lines = (fields for fields in entries(context.path("/etc/group")) if len(fields) > 3)  # noqa: PLR2004 - group(5)
    return frozenset(fields[0] for fields in lines if user in fields[3].split(","))
