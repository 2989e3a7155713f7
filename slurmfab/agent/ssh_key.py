"""The SSH key pair of a user, made on the host, whose private half never leaves it."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Tuple

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, group_name, uid_of, user_name
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

OTHERS_WRITE = 0o022


class SshKey(Resource):
    """A user's home, `.ssh` and an ed25519 key pair without a passphrase, as StrictModes of sshd_config(5) wants them.

    Args:
        user: whose; the primary group is the one of the same name.
        home: path of the home directory; made if it is missing.
    """

    kind: ClassVar[str] = "ssh-key"
    user: str
    home: str

    def name(self) -> str:
        """The user."""
        return self.user

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:
        """Both halves of the pair, if one is not right."""
        key = self.home + "/.ssh/id_ed25519"
        return (key, key + ".pub") if {"private key", "public key"} & differing else ()

    def holds_secret(self, path: str) -> bool:
        """The private half."""
        return not path.endswith(".pub")

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Home and `.ssh` safe from other users, and both halves of the pair."""
        return {
            "home": "safe, of %s" % self.user,
            ".ssh": "0700 %s:%s" % (self.user, self.user),
            "private key": "0600 %s:%s" % (self.user, self.user),
            "public key": "0644 %s:%s" % (self.user, self.user),
        }

    def actual(self, context: Context) -> State:
        """The same as it is; a home that only its user can write to counts as safe, whatever its exact mode.

        Raises:
            ResourceFailed: something of another type is in a place of these.
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
                raise ResourceFailed("%s/.ssh is no directory; move it away" % self.home)
            state[".ssh"] = self.access(context, status)
        for part, path in (("private key", key), ("public key", key + ".pub")):
            found = replace.regular(path)
            if found is not None:
                state[part] = self.access(context, found) if found.st_size else "empty"
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make what is missing; the key itself is made by ssh-keygen(1) as the user."""
        home, folder, key = self.paths(context)
        account = (uid_of(context, self.user), gid_of(context, self.user))
        if "home" in differing:
            own_directory(os.path.realpath(home), account, 0o750)
        if ".ssh" in differing:
            own_directory(folder, account, 0o700)
        private, public = replace.regular(key), replace.regular(key + ".pub")
        if private is None or not private.st_size:
            self.make(context, key, account)
        else:
            replace.change_access(key, *account, 0o600)
            if public is None or not public.st_size:
                words = context.must(["ssh-keygen", "-y", "-P", "", "-f", key], account=account).split()
                line = " ".join([*words[:2], self.comment()]) + "\n"
                replace.put(key + ".pub", line.encode(), *account, 0o644)
            else:
                replace.change_access(key + ".pub", *account, 0o644)

    def make(self, context: Context, key: str, account: Tuple[int, int]) -> None:
        """Make a pair under another name and move it into place, so that a killed run leaves no half pair."""
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
        """Home, `.ssh` and the private key."""
        home = context.path(self.home)
        return home, home + "/.ssh", home + "/.ssh/id_ed25519"

    def comment(self) -> str:
        """What the public key ends with."""
        return "%s@%s" % (self.user, os.uname().nodename.split(".")[0])

    def access(self, context: Context, status: os.stat_result) -> str:
        """Mode, owner and group in words."""
        owner = user_name(context, status.st_uid, self.user)
        return "%04o %s:%s" % (status.st_mode & 0o7777, owner, group_name(context, status.st_gid, self.user))


def own_directory(path: str, account: Tuple[int, int], mode: int) -> None:
    """Make a directory of this account, or give it one that is there."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.isdir(path):
        os.mkdir(path, 0o700)
    replace.change_access(path, *account, mode, is_directory=True)
