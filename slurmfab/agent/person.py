"""A person's account on a host, in contrast to a daemon's."""

from __future__ import annotations

from typing import ClassVar, FrozenSet, List, Tuple

from slurmfab.agent.account_files import edit
from slurmfab.agent.accounts import find_user, gid_of, group_name
from slurmfab.agent.group import prefix
from slurmfab.agent.reading import entries
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State


class Person(Resource):
    """A user without a password; UID and group of one that is there are never changed, for files carry them.

    Args:
        user: the name.
        uid: the number.
        group: the name of the primary group, which has to be there.
        home: path of the home directory, which is not made here.
        shell: path of the login shell.
        comment: the name in full; empty for whatever is there.
        groups: further groups, which have to be there.
        managed: groups that nobody else decides about; the user is in no other of them.
    """

    kind: ClassVar[str] = "person"
    user: str
    uid: int
    group: str
    home: str
    shell: str
    comment: str = ""
    groups: Tuple[str, ...] = ()
    managed: Tuple[str, ...] = ()

    def name(self) -> str:
        """The user's name."""
        return self.user

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """All that is said of the user."""
        said = {"comment": self.comment} if self.comment else {}
        groups = ",".join(sorted(self.groups)) or None
        return {"uid": self.uid, "group": self.group, "home": self.home, "shell": self.shell, **said, "groups": groups}

    def actual(self, context: Context) -> State:
        """The same of the user that is there; nothing when there is none.

        Raises:
            ResourceFailed: the user has another UID or group.
        """
        found = find_user(context, self.user)
        if found is None:
            return {}
        group = group_name(context, found.pw_gid, self.group)
        if found.pw_uid != self.uid or group != self.group:
            raise ResourceFailed(
                "the user %s has UID %d and the group %s here and should have UID %d and the group %s; files carry "
                "the numbers, so they are not changed: use usermod and chown yourself, or say the UID in the cluster "
                "file" % (self.user, found.pw_uid, group, self.uid, self.group)
            )
        inside = groups_of(context, self.user) & {*self.managed, *self.groups}
        return {
            "uid": found.pw_uid,
            "group": group,
            "home": found.pw_dir,
            "shell": found.pw_shell,
            "comment": found.pw_gecos,
            "groups": ",".join(sorted(inside)) or None,
        }

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Make the user by useradd(8), or change the entry."""
        gid_of(context, self.group)
        if "uid" in differing:
            # No password at all, rather than the locked one that useradd gives: without PAM, sshd refuses locked users.
            said = ["--comment", self.comment] if self.comment else []
            context.must(
                ["useradd", *prefix(context), "--no-log-init", "--no-create-home", "--uid", str(self.uid),
                 "--gid", self.group, "--home-dir", self.home, "--shell", self.shell, *said,
                 "--password", "*", self.user]
            )  # fmt: skip
        elif differing - {"groups"}:
            # usermod refuses users who are logged in.
            edit(context, "/etc/passwd", self.as_wanted)
        if "groups" in differing:
            others = groups_of(context, self.user) - {*self.managed}
            groups = ",".join(sorted(others | {*self.groups}))
            context.must(["usermod", *prefix(context), "--groups", groups, self.user])

    def as_wanted(self, fields: List[str]) -> List[str]:
        """The fields of a line of passwd(5), changed if it is this user's."""
        if fields[0] != self.user:
            return fields
        return [*fields[:4], self.comment or fields[4], self.home, self.shell]


def groups_of(context: Context, user: str) -> FrozenSet[str]:
    """The host's own groups that a user is a further member of."""
    lines = (fields for fields in entries(context.path("/etc/group")) if len(fields) > 3)  # noqa: PLR2004 - group(5)
    return frozenset(fields[0] for fields in lines if user in fields[3].split(","))
