"""A system user of a host."""

from __future__ import annotations

from typing import ClassVar, List

from slurmfab.agent.account_files import edit
from slurmfab.agent.accounts import find_user, gid_of, group_name
from slurmfab.agent.group import prefix
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

USER_BUSY = 8
"""The exit code of usermod(8) when processes of the user run."""


class User(Resource):
    """A user with these properties; UID and group of a user that is there are never changed, for files carry them.

    Args:
        user: the name.
        uid: the number.
        group: name of the primary group, which has to be there.
        home: path of the home directory, which is not made.
        shell: path of the login shell.
        moved: whether a resource before this one gives the user its numbers; a dry run takes them for given.
    """

    kind: ClassVar[str] = "user"
    user: str
    uid: int
    group: str
    home: str
    shell: str
    moved: bool = False

    def name(self) -> str:
        """The user's name."""
        return self.user

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """UID, group, home and shell."""
        return {"uid": self.uid, "group": self.group, "home": self.home, "shell": self.shell}

    def actual(self, context: Context) -> State:
        """The same of the user that is there; nothing when there is none.

        Raises:
            ResourceFailed: the user has another UID or group.
        """
        found = find_user(context, self.user)
        if found is None:
            return {}
        if self.moved and context.dry_run:
            return {**self.wanted(context), "home": found.pw_dir, "shell": found.pw_shell}
        if found.pw_uid != self.uid:
            raise ResourceFailed(
                "the user %s has UID %d here and should have %d; files carry the number, so it is not changed: "
                "let slurmfab move them by --move-ids, or give the cluster UID %d"
                % (self.user, found.pw_uid, self.uid, found.pw_uid)
            )
        group = group_name(context, found.pw_gid, self.group)
        if group != self.group:
            raise ResourceFailed(
                "the user %s has the primary group %s (GID %d) here and should have %s (GID %d); it is not changed: "
                "let slurmfab do it by --move-ids, or use usermod yourself"
                % (self.user, group, found.pw_gid, self.group, gid_of(context, self.group))
            )
        return {"uid": found.pw_uid, "group": group, "home": found.pw_dir, "shell": found.pw_shell}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make the user by useradd(8), or set home and shell by usermod(8)."""
        if "uid" in differing:
            # No password at all, rather than the locked one that useradd gives: without PAM, sshd refuses locked users.
            context.must(
                ["useradd", *prefix(context), "--system", "--no-log-init", "--no-create-home", "--uid", str(self.uid),
                 "--gid", self.group, "--home-dir", self.home, "--shell", self.shell,
                 "--password", "*", self.user]
            )  # fmt: skip
            return
        done = context.run(["usermod", *prefix(context), "--home", self.home, "--shell", self.shell, self.user])
        if done.returncode == USER_BUSY:
            self.rewrite(context)
        elif done.returncode != 0:
            raise ResourceFailed("usermod: %s" % done.stderr.decode(errors="replace").strip())

    def rewrite(self, context: Context) -> None:
        """Set home and shell in /etc/passwd while processes of the user run.

        usermod refuses that for the sake of login sessions; a daemon's home may change below it.

        Raises:
            ResourceFailed: the lock of /etc/passwd is held for long.
        """
        edit(context, "/etc/passwd", self.with_home_and_shell)

    def with_home_and_shell(self, fields: List[str]) -> List[str]:
        """The fields of a line of passwd(5), changed if it is this user's."""
        return [*fields[:5], self.home, self.shell] if fields[0] == self.user else fields
