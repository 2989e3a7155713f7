"""A system user of a host."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from typing import ClassVar

from slurmfab.agent import replace
from slurmfab.agent.accounts import find_user, gid_of, group_name
from slurmfab.agent.group import prefix
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

USER_BUSY = 8
"""The exit code of usermod(8) when processes of the user run."""

LOCK_SECONDS = 15.0
"""How long lckpwdf(3) waits for the lock."""


@dataclass(frozen=True)
class User(Resource):
    """A user with these properties; UID and group of a user that is there are never changed, for files carry them.

    Args:
        user: the name.
        uid: the number.
        group: name of the primary group, which has to be there.
        home: path of the home directory, which is not made.
        shell: path of the login shell.
    """

    kind: ClassVar[str] = "user"
    user: str
    uid: int
    group: str
    home: str
    shell: str

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
        if found.pw_uid != self.uid:
            raise ResourceFailed(
                "the user %s has UID %d here and should have %d; files carry the number, so it is not changed: "
                "use usermod and chown yourself, or give the cluster UID %d"
                % (self.user, found.pw_uid, self.uid, found.pw_uid)
            )
        group = group_name(context, found.pw_gid, self.group)
        if group != self.group:
            raise ResourceFailed(
                "the user %s has the primary group %s (GID %d) here and should have %s (GID %d); it is not changed: "
                "use usermod yourself" % (self.user, group, found.pw_gid, self.group, gid_of(context, self.group))
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
        """Set home and shell in /etc/passwd while processes of the user run, under the lock of lckpwdf(3).

        usermod refuses that for the sake of login sessions; a daemon's home may change below it.

        Raises:
            ResourceFailed: the lock is held for long.
        """
        path = context.path("/etc/passwd")
        descriptor = os.open(context.path("/etc/.pwd.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            wait_for_lock(descriptor)
            lines = (replace.read(path) or b"").decode("utf-8", "surrogateescape").splitlines(keepends=True)
            status = os.stat(path)
            data = "".join(self.with_home_and_shell(line) for line in lines).encode("utf-8", "surrogateescape")
            replace.put(path, data, status.st_uid, status.st_gid, status.st_mode & 0o7777)
        finally:
            os.close(descriptor)

    def with_home_and_shell(self, line: str) -> str:
        """A line of passwd(5), changed if it is this user's."""
        fields = line.rstrip("\n").split(":")
        return ":".join([*fields[:5], self.home, self.shell]) + "\n" if fields[0] == self.user else line


def wait_for_lock(descriptor: int, seconds: float = LOCK_SECONDS) -> None:
    """Take a lock on a whole file, as lockf(3) does.

    Raises:
        ResourceFailed: somebody else holds it for that long.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise ResourceFailed("/etc/.pwd.lock is held by another program for %.0f s" % seconds) from None
            time.sleep(0.1)
        else:
            return
