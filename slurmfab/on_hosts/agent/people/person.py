"""A user of the cluster on a host: the Unix account, the home, and its SSH keys."""

from __future__ import annotations

import os
from typing import ClassVar, FrozenSet, List, Tuple

from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.files.block import DamagedBlock, MarkedBlock, join_lines, split_lines
from slurmfab.on_hosts.agent.identities.user import HostUser, shadow_prefix
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of
from slurmfab.on_hosts.agent.people.home_worker import DEAD, HomeTrouble, worker

BEGIN, END = "# BEGIN slurmfab keys", "# END slurmfab keys"
BLOCK = MarkedBlock(BEGIN, END)


class AuthorizedKeys(Resource):
    """A marked block of ~/.ssh/authorized_keys with these keys; the user's other lines stay byte for byte."""

    kind: ClassVar[str] = "authorized-keys"
    named_by: ClassVar[str] = "user"
    # Hosts that share homes replace the file at the same time. On a file system such as GlusterFS a name can be missing
    # for a moment while another host renames a file to it.
    settling_seconds: ClassVar[float] = 3.0
    user: str
    uid: int
    gid: int
    home: str
    keys: Tuple[str, ...]  # lines of authorized_keys (sshd(8)); empty to remove the block

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The keys, one per line."""
        return {"keys": "".join(key + "\n" for key in self.keys) or None}

    def actual(self, context: Context) -> State:
        """The keys in the block; a file that cannot be read or replaced counts as right and gives a remark."""
        try:
            lines, obstacle = self.read(context)
        except LeftAsItWas as remark:
            context.remark = str(remark)
            return self.wanted(context)
        try:
            keys = BLOCK.content(lines) or None
        except DamagedBlock:
            keys = None
        wanted = self.wanted(context)
        if obstacle and keys != wanted["keys"]:
            context.remark = self.remark(obstacle)
            return wanted
        return {"keys": keys}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Replace the file as the user, a damaged block at its end; LeftAsItWas if it cannot be read or replaced."""
        lines, _ = self.read(context)
        keys = self.wanted(context)["keys"] or ""
        try:
            new = BLOCK.replaced(lines, keys)
        except DamagedBlock:
            new = BLOCK.replaced(BLOCK.without_markers(lines), keys)
        temporary = ".slurmfab-keys-%s" % os.uname().nodename
        try:
            worker.ask("write keys", (self.uid, self.gid), context.path(self.home), join_lines(new), temporary)
        except HomeTrouble as trouble:
            raise LeftAsItWas(self.remark(str(trouble))) from None

    def read(self, context: Context) -> Tuple[List[str], str]:
        """The file's lines, and why its user cannot replace it; LeftAsItWas, ResourceFailed of a broken mount."""
        try:
            data, obstacle = worker.ask("read keys", (self.uid, self.gid), context.path(self.home))
        except HomeTrouble as trouble:
            if trouble.errno in DEAD:
                raise ResourceFailed(self.remark(str(trouble))) from None
            raise LeftAsItWas(self.remark(str(trouble))) from None
        return split_lines(data), obstacle

    def remark(self, cause: str) -> str:
        """The remark about keys that cannot be read or written."""
        return "slurmfab did not write %s's SSH keys: %s/.ssh/authorized_keys: %s Mend it and deploy again" % (
            self.user, self.home, cause if cause.endswith("?") else cause.rstrip(".") + "."
        )  # fmt: skip


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


SKELETON = "/etc/skel"  # the initial content of a new home (useradd(8))


class PersonHome(Resource):
    """A home directory that other users cannot read; an existing one is not changed.

    The home may be on a shared file system where all hosts make it at the same time. Each host makes a directory under
    a name of its own with a `.ssh` in it; rename(2) does not replace a directory that is not empty, so one host wins.
    """

    kind: ClassVar[str] = "person-home"
    named_by: ClassVar[str] = "home"
    wanted_state: ClassVar[State] = {"home": "there"}
    user: str
    uid: int
    gid: int
    home: str

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
