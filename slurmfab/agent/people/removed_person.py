"""A removed user of the cluster: no account and no SSH keys; the user's files stay."""

from __future__ import annotations

from typing import ClassVar, FrozenSet, List

from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.identities.group import shadow_prefix
from slurmfab.agent.identities.id_processes import Process, listed, with_numbers
from slurmfab.agent.identities.users_and_groups import find_user
from slurmfab.agent.people.authorized_keys import AuthorizedKeys

MANAGERS = ("systemd", "(sd-pam)")
"""Processes that systemd keeps for ten seconds after the last logout (logind.conf(5), UserStopDelaySec)."""


class RemovedPerson(Resource):
    """No user with this name and UID.

    Args:
        user: user name.
        uid: UID; a user of this name with another UID is another user and stays.
        home: path of the home directory, which stays.
        may: whether the account may be removed; otherwise it stays, with a remark.
        must: whether running processes of the user are a failure; otherwise the account stays, with a remark.
    """

    kind: ClassVar[str] = "person-gone"
    user: str
    uid: int
    home: str
    may: bool = True
    must: bool = False

    def name(self) -> str:
        """The user's name."""
        return self.user

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """No such user."""
        return {"uid": None}

    def actual(self, context: Context) -> State:
        """The UID of the user on the host, `None` if there is no such user or the account has to stay.

        Raises:
            ResourceFailed: the user has running processes, and `must` is set.
        """
        found = find_user(context, self.user)
        if found is None or found.pw_uid != self.uid:
            return {"uid": None}
        if not self.may:
            context.remark = "%s is not in the cluster file any more; the user was not removed" % self.user
            return {"uid": None}
        busy = [process for process in self.processes(context) if not is_manager(process)]
        if busy:
            if self.must:
                raise ResourceFailed("%s has processes here: %s" % (self.user, listed(busy)))
            context.remark = "the user %s was not removed, because of running processes: %s" % (self.user, listed(busy))
            return {"uid": None}
        return {"uid": found.pw_uid}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Remove the SSH keys, so that the user cannot log in meanwhile; then the account, by userdel(8).

        Raises:
            ResourceFailed: userdel failed.
        """
        found = find_user(context, self.user)
        if found is None:
            return
        keys = AuthorizedKeys(self.user, self.uid, found.pw_gid, self.home, ())
        if keys.actual(context) != keys.wanted(context):
            keys.converge(context, differing)
        context.remark = ""
        if self.processes(context):
            context.run(["systemctl", "stop", "user@%d.service" % self.uid])
        context.must(["userdel", *shadow_prefix(context), self.user])
        context.remark = "%s stays, with UID %d" % (self.home, self.uid)

    def processes(self, context: Context) -> List[Process]:
        """The processes with the user's UID."""
        return with_numbers(context, {self.uid}, ())


def is_manager(process: Process) -> bool:
    """Whether a process is systemd's user manager and not a program that the user started."""
    return process.command in MANAGERS and process.unit.startswith("user@")
