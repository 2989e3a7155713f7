"""A person who has left: no account, no keys, no sudo; the files stay."""

from __future__ import annotations

from typing import ClassVar, FrozenSet, List

from slurmfab.agent.accounts import find_user
from slurmfab.agent.authorized_keys import AuthorizedKeys
from slurmfab.agent.group import prefix
from slurmfab.agent.id_processes import Process, with_numbers
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

MANAGERS = ("systemd", "(sd-pam)")
"""What systemd keeps for ten seconds after the last logout (logind.conf(5), UserStopDelaySec)."""

TOLD = 5


class PersonGone(Resource):
    """No user of this name and number.

    Args:
        user: the name.
        uid: the number; a user who has another one is somebody else.
        home: path of the home directory, which stays.
        may: whether the account may go; otherwise there is a remark that it is there.
        must: whether processes of the user are a failure; otherwise the account stays as long as they run.
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
        """Nobody."""
        return {"uid": None}

    def actual(self, context: Context) -> State:
        """The number of the user that is there.

        Raises:
            ResourceFailed: processes of the user run.
        """
        found = find_user(context, self.user)
        if found is None or found.pw_uid != self.uid:
            return {"uid": None}
        if not self.may:
            context.remark = "%s is not in the cluster file any more and was left as a user" % self.user
            return {"uid": None}
        busy = [process for process in self.processes(context) if not is_manager(process)]
        if busy:
            told = ", ".join([*map(str, busy[:TOLD]), *(["…"] if len(busy) > TOLD else [])])
            if self.must:
                raise ResourceFailed("%s has processes here: %s" % (self.user, told))
            context.remark = "%s was left as a user, since there are processes: %s" % (self.user, told)
            return {"uid": None}
        return {"uid": found.pw_uid}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Take the keys away first, so that nobody logs in meanwhile; then the account, by userdel(8)."""
        found = find_user(context, self.user)
        if found is None:
            return
        keys = AuthorizedKeys(self.user, self.uid, found.pw_gid, self.home, ())
        if keys.actual(context) != keys.wanted(context):
            keys.converge(context, differing)
        context.remark = ""
        if self.processes(context):
            context.run(["systemctl", "stop", "user@%d.service" % self.uid])
        context.must(["userdel", *prefix(context), self.user])
        context.remark = "%s stays, with UID %d" % (self.home, self.uid)

    def processes(self, context: Context) -> List[Process]:
        """What runs with the user's number."""
        return with_numbers(context, {self.uid}, ())


def is_manager(process: Process) -> bool:
    """Whether a process is systemd's and not the user's."""
    return process.command in MANAGERS and process.unit.startswith("user@")
