"""Groups of a host, and users: what all users have in common, and users that daemons run as, such as slurm."""

from __future__ import annotations

import time
from typing import ClassVar, List, Sequence

from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.passwd_files import edit
from slurmfab.on_hosts.agent.identities.users_and_groups import find_group, find_user, gid_of, group_name

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


USER_BUSY = 8  # the exit code of usermod(8) when the user has running processes
DAY = 86400  # seconds of a day: shadow(5) counts days since 1970
LAST_DAY = 2932531  # 9998-12-31; later ones are in no calendar of Python's

NEVER = ("--expiredate", "-1", "--lastday", "-1", "--maxdays", "-1", "--inactive", "-1")
"""Options of chage(1) with which neither an account nor its password expires."""


class HostUser(Resource):
    """A line of /etc/passwd; UID and group of an existing user are never changed, because files carry the numbers."""

    named_by: ClassVar[str] = "user"

    user: str
    uid: int
    group: str  # name of the primary group, which has to exist
    home: str  # path of the home directory, which is not made here
    shell: str

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """UID, group, home and shell."""
        return {"uid": self.uid, "group": self.group, "home": self.home, "shell": self.shell}

    def actual(self, context: Context) -> State:
        """UID, GID, group, home, shell and comment of the user, empty where there is no such user."""
        found = find_user(context, self.user)
        if found is None:
            return {}
        return {
            "uid": found.pw_uid,
            "gid": found.pw_gid,
            "group": group_name(context, found.pw_gid, self.group),
            "home": found.pw_dir,
            "shell": found.pw_shell,
            "comment": found.pw_gecos,
        }

    def add(self, context: Context, options: Sequence[str] = ()) -> None:
        """Make the user by useradd(8). Raises ResourceFailed if useradd failed."""
        # "*" means that no password fits. useradd's default locks the user, and without PAM sshd refuses locked users.
        context.must(
            ["useradd", *shadow_prefix(context), *options, "--no-log-init", "--no-create-home",
             "--uid", str(self.uid), "--gid", self.group, "--home-dir", self.home, "--shell", self.shell,
             "--password", "*", self.user]
        )  # fmt: skip

    def edit_passwd(self, context: Context, comment: str = "") -> None:
        """Set home, shell and comment (empty: keep) in /etc/passwd, as usermod(8) refuses with processes."""

        def change(fields: List[str]) -> List[str]:
            """The fields of a line of passwd(5), changed if it is this user's."""
            is_ours = fields[0] == self.user
            return [*fields[:4], comment or fields[4], self.home, self.shell] if is_ours else fields

        edit(context, "/etc/passwd", change)


class User(HostUser):
    """A user that a daemon runs as."""

    kind: ClassVar[str] = "user"
    # Whether an earlier resource changes the user's UID and GID; a dry run then counts them as right.
    moved: bool = False
    kept: bool = False  # whether home, shell and expiry of a user who is there stay, because the user does not log in

    def wanted(self, context: Context) -> State:
        """UID, group, home and shell; and that the account of a user who logs in does not expire."""
        return {**super().wanted(context), **({} if self.shell.endswith("nologin") else {"expires": "never"})}

    def actual(self, context: Context) -> State:
        """UID, group, home, shell and expiry of the user; ResourceFailed if UID or primary group differ."""
        found = super().actual(context)
        if not found:
            return {"expires": "never"}
        found = {**found, "expires": expiry(context, self.user)}
        if self.kept:
            found.update({"home": self.home, "shell": self.shell, "expires": "never"})
        if self.moved and context.dry_run:
            return {**found, "uid": self.uid, "group": self.group}
        if found["uid"] != self.uid:
            raise ResourceFailed(
                "the user %s has UID %d here and should have %d; files carry the number, so it is not changed: "
                "let `%s deploy --move-ids` change it, or give the cluster UID %d"
                % (self.user, found["uid"], self.uid, FAB, found["uid"])
            )
        if found["group"] != self.group:
            raise ResourceFailed(
                "the user %s has the primary group %s (GID %d) here and should have %s (GID %d); it is not changed: "
                "let `%s deploy --move-ids` do it, or use usermod yourself"
                % (self.user, found["group"], found["gid"], self.group, gid_of(context, self.group), FAB)
            )
        return found

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make the user, or set home, shell and expiry (useradd, usermod, chage); ResourceFailed if they fail."""
        if "uid" in differing:
            self.add(context, ["--system"])
            return
        if "expires" in differing:
            context.must(["chage", *NEVER, self.user])
        if not differing - {"expires"}:
            return
        done = context.run(["usermod", *shadow_prefix(context), "--home", self.home, "--shell", self.shell, self.user])
        if done.returncode == USER_BUSY:
            self.edit_passwd(context)
        elif done.returncode != 0:
            raise ResourceFailed("usermod: %s" % done.stderr.decode(errors="replace").strip())


def expiry(context: Context, user: str) -> str:
    """When a user's account expires, see `expiry_of`; one that a directory service alone knows never expires here."""
    lines = entries(context.path("/etc/shadow"))
    return next((expiry_of(fields, time.time()) for fields in lines if fields[0] == user), "never")


def expiry_of(fields: Sequence[str], now: float) -> str:
    """When an account, by its fields in shadow(5), expires, also for logins by SSH: `never`, or why and when."""
    changed, longest, expires = (fields[2], fields[4], fields[7]) if len(fields) > 7 else ("", "", "")  # noqa: PLR2004
    if expires.isdecimal():
        return day(int(expires))
    if changed == "0":
        return "at once, unless its password is changed"
    if changed.isdecimal() and longest.isdecimal() and (int(changed) + int(longest)) * DAY < now:
        return "since %s, with its password" % day(int(changed) + int(longest))
    return "never"


def day(number: int) -> str:
    """A day, such as `1970-01-02`. `number`: days since 1970."""
    return time.strftime("%Y-%m-%d", time.gmtime(min(number, LAST_DAY) * DAY))
