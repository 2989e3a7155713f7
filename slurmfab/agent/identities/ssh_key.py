"""The SSH key pair of a user; it is made on the host, and the private key never leaves it."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Tuple

from slurmfab.agent.core import replace
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.identities.users_and_groups import access_of, gid_of, uid_of, user_name

OTHERS_WRITE = 0o022


class SshKey(Resource):
    """A user's home, `.ssh` and an ed25519 key pair without a passphrase, with the modes that sshd's StrictModes needs.

    Args:
        user: user name; the primary group has the same name.
        home: path of the home directory; it is made if it is missing.
    """

    kind: ClassVar[str] = "ssh-key"
    user: str
    home: str

    def name(self) -> str:
        """The user."""
        return self.user

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:
        """Both keys, if one of them differs."""
        key = self.home + "/.ssh/id_ed25519"
        return (key, key + ".pub") if {"private key", "public key"} & differing else ()

    def holds_secret(self, path: str) -> bool:
        """Whether it is the private key."""
        return not path.endswith(".pub")

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """A home and `.ssh` that other users cannot write to, and both keys."""
        return {
            "home": "safe, of %s" % self.user,
            ".ssh": "0700 %s:%s" % (self.user, self.user),
            "private key": "0600 %s:%s" % (self.user, self.user),
            "public key": "0644 %s:%s" % (self.user, self.user),
        }

    def actual(self, context: Context) -> State:
        """The same on the host; a home that only its user can write to counts as safe, whatever its exact mode.

        Raises:
            ResourceFailed: `.ssh` is not a directory, or a key is not a regular file.
        """
        home, folder, key = self.paths(context)
        state = {}
        if os.path.lexists(home):
            status = os.stat(home)
            owner = user_name(context, status.st_uid, self.user)
            is_safe = owner == self.user and not status.st_mode & OTHERS_WRITE
            state["home"] = "safe, of %s" % self.user if is_safe else self.access(context, status)
        if os.path.lexists(folder):
            status = os.lstat(folder)
            if not stat.S_ISDIR(status.st_mode):
                raise ResourceFailed("%s/.ssh is not a directory; move it away" % self.home)
            state[".ssh"] = self.access(context, status)
        for part, path in (("private key", key), ("public key", key + ".pub")):
            found = replace.regular(path)
            if found is not None:
                state[part] = self.access(context, found) if found.st_size else "empty"
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make what is missing, and set owners and modes; ssh-keygen(1) makes the keys, as the user.

        Raises:
            ResourceFailed: the user does not exist, or ssh-keygen fails.
        """
        home, folder, key = self.paths(context)
        account = (uid_of(context, self.user), gid_of(context, self.user))
        if "home" in differing:
            replace.make_directory(os.path.realpath(home), *account, 0o750)
        if ".ssh" in differing:
            replace.make_directory(folder, *account, 0o700)
        private, public = replace.regular(key), replace.regular(key + ".pub")
        if private is None or not private.st_size:
            self.make(context, key, account)
        else:
            replace.change_access(key, *account, 0o600)
            if public is None or not public.st_size:
                fields = context.must(["ssh-keygen", "-y", "-P", "", "-f", key], account=account).split()
                line = " ".join([*fields[:2], self.comment()]) + "\n"
                replace.put(key + ".pub", line.encode(), *account, 0o644)
            else:
                replace.change_access(key + ".pub", *account, 0o644)

    def make(self, context: Context, key: str, account: Tuple[int, int]) -> None:
        """Make a key pair under temporary names and rename it, so that an interrupted run leaves no single key.

        Args:
            context: the request's context.
            key: path of the private key.
            account: UID and GID of the user.
        """
        temporary = key + ".slurmfab"
        for path in (temporary, temporary + ".pub", key + ".pub"):
            if os.path.lexists(path):
                os.unlink(path)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.comment(), "-f", temporary]
        context.must(argv, account=account)
        os.rename(temporary, key)
        os.rename(temporary + ".pub", key + ".pub")
        replace.change_access(key, *account, 0o600)
        replace.change_access(key + ".pub", *account, 0o644)

    def paths(self, context: Context) -> Tuple[str, str, str]:
        """The paths of the home, `.ssh` and the private key."""
        home = context.path(self.home)
        return home, home + "/.ssh", home + "/.ssh/id_ed25519"

    def comment(self) -> str:
        """The comment of the public key, such as `slurm@n1`."""
        return "%s@%s" % (self.user, os.uname().nodename.split(".")[0])

    def access(self, context: Context, status: os.stat_result) -> str:
        """Mode, owner and group, such as `0700 slurm:slurm`."""
        return "%(mode)s %(owner)s:%(group)s" % access_of(context, status, self.user, self.user)
