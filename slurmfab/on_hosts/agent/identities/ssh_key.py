"""The SSH key pair of a user; it is made on the host, and the private key never leaves it."""

from __future__ import annotations

import os
from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import OTHERS_WRITE, Folder, UnsafePath, make_or_enter, open_folder, user
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, gid_of, uid_of, user_name
from slurmfab.on_hosts.agent.identities.ways import closed_ways, open_ways

KEY = "id_ed25519"  # the private key's name in `.ssh`


class SshKey(Resource):
    """A user's home, `.ssh` and an ed25519 key pair without a passphrase; modes as sshd's StrictModes needs."""

    kind: ClassVar[str] = "ssh-key"
    named_by: ClassVar[str] = "user"
    user: str  # user name; the primary group has the same name
    home: str  # path of the home directory; it is made if it is missing

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:
        """Both keys, if one of them differs."""
        key = self.home + "/.ssh/id_ed25519"
        return (key, key + ".pub") if {"private key", "public key"} & differing else ()

    def labelled(self, context: Context) -> Tuple[str, ...]:
        """`.ssh` and both keys."""
        return (self.home + "/.ssh", *super().labelled(context))

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
        """The same on the host, a safe home of any mode; ResourceFailed if `.ssh` or a key is something else."""
        try:
            home = open_folder(context.path(self.home))
        except FileNotFoundError:
            return {}
        with home:
            owner = user_name(context, home.status.st_uid, self.user)
            is_safe = owner == self.user and not home.status.st_mode & OTHERS_WRITE
            way = closed_ways(context, self.home, self.user)
            state = {"home": way or ("safe, of %s" % self.user if is_safe else self.access(context, home.status))}
            try:
                folder = home.enter(".ssh")
            except FileNotFoundError:
                return state
            except NotADirectoryError:
                raise ResourceFailed("%s/.ssh is not a directory; move it away" % self.home) from None
            with folder:
                state[".ssh"] = self.access(context, folder.status)
                for part, name in (("private key", KEY), ("public key", KEY + ".pub")):
                    found = folder.find(name)
                    if found is not None:
                        folder.require_regular(name, found)
                        state[part] = self.access(context, found) if found.st_size else "empty"
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make keys, as the user, and set access; ResourceFailed without user, ssh-keygen, or own directory."""
        account = (uid_of(context, self.user), gid_of(context, self.user))
        with open_folder(context.path(self.home), make=True) as home:
            if "home" in differing:
                refuse_foreign(home, account[0], (".ssh",))
                home.set_access(*account, 0o750)
                open_ways(context, self.home, self.user)
            with make_or_enter(home, ".ssh") as folder:
                if ".ssh" in differing:
                    refuse_foreign(folder, account[0], (KEY, "authorized_keys", "known_hosts"))
                    folder.set_access(*account, 0o700)
                self.make_keys(context, folder, account)

    def make_keys(self, context: Context, folder: Folder, account: Tuple[int, int]) -> None:
        """Make a missing key, and set owners and modes. `folder`: `.ssh`."""
        private, public = folder.find(KEY), folder.find(KEY + ".pub")
        if private is None or not private.st_size:
            self.make(context, folder, account)
            return
        replace.change_access_in(folder, KEY, (*account, 0o600))
        if public is None or not public.st_size:
            argv = ["ssh-keygen", "-y", "-P", "", "-f", folder.place(KEY)]
            line = " ".join([*context.must(argv, account=account).split()[:2], self.comment()]) + "\n"
            replace.put_in(folder, KEY + ".pub", line.encode(), (*account, 0o644))
        else:
            replace.change_access_in(folder, KEY + ".pub", (*account, 0o644))

    def make(self, context: Context, folder: Folder, account: Tuple[int, int]) -> None:
        """Make a key pair under temporary names in `.ssh` and rename it, so that no single key can be left."""
        temporary = KEY + ".slurmfab"
        for name in (temporary, temporary + ".pub", KEY + ".pub"):
            folder.unlink(name)
        place = folder.place(temporary)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.comment(), "-f", place]
        context.must(argv, account=account)
        for end, mode in (("", 0o600), (".pub", 0o644)):
            folder.rename(temporary + end, KEY + end)
            replace.change_access_in(folder, KEY + end, (*account, mode))

    def comment(self) -> str:
        """The comment of the public key, such as `slurm@n1`."""
        return "%s@%s" % (self.user, os.uname().nodename.split(".")[0])

    def access(self, context: Context, status: os.stat_result) -> str:
        """Mode, owner and group, such as `0700 slurm:slurm`."""
        return "%(mode)s %(owner)s:%(group)s" % access_of(context, status, self.user, self.user)


def refuse_foreign(folder: Folder, uid: int, marks: Tuple[str, ...]) -> None:
    """Refuse, by UnsafePath, to give `uid` a directory of another with files but none of the marks."""
    if folder.intruder and folder.status.st_uid != uid and folder.names() and not folder.has_mark(marks, uid):
        raise UnsafePath(
            "%s belongs to %s, and %s can have put it there, so it is given to nobody; see what it is, and move it away"
            % (folder.path, user(folder.status.st_uid), folder.intruder)
        )
