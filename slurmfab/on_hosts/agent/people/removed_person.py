"""A removed user of the cluster: no account and no SSH keys; the user's files stay."""

from __future__ import annotations

from typing import ClassVar, FrozenSet, List

from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.id_processes import Process, listed, with_numbers
from slurmfab.on_hosts.agent.identities.user import shadow_prefix
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user
from slurmfab.on_hosts.agent.people.person import CLOSED_SINCE, AuthorizedKeys, is_closed

MANAGERS = ("systemd", "(sd-pam)")
"""Processes that systemd keeps for ten seconds after the last logout (logind.conf(5), UserStopDelaySec)."""

IN_USE = 8  # exit code of userdel(8) while the user has processes

CLOSED = "; the account is locked and expired"

STOP_SECONDS = 20.0  # the time that a user's systemd has to stop before it is killed


class RemovedPerson(Resource):
    """No user with this name and UID."""

    kind: ClassVar[str] = "person-gone"
    named_by: ClassVar[str] = "user"
    wanted_state: ClassVar[State] = {"uid": None, "login": None}
    user: str
    uid: int  # UID; a user of this name with another UID is another user and stays
    home: str  # path of the home directory, which stays
    may: bool = True  # whether the account may be removed; otherwise it stays, with a remark
    # Whether running processes of the user are a failure; otherwise the account stays, with a remark.
    must: bool = False
    closes: bool = False  # whether the account is closed (locked and expired) even while processes of the user keep it
    elsewhere: str = ""  # the hosts whose processes of the user keep it, if these are others

    def actual(self, context: Context) -> State:
        """UID and login of a user who may be removed, or `None`; ResourceFailed of processes, if it `must`."""
        found = find_user(context, self.user)
        if found is None or found.pw_uid != self.uid:
            return {}
        login = None if is_closed(context, self.user) else "open"
        if not self.may:
            why = ", because of processes on %s" % self.elsewhere if self.elsewhere else ""
            text = "%s is not in the cluster file any more; the user was not removed" % self.user
            context.remark = text + why + (CLOSED if self.closes else "")
            return {"login": login} if self.closes else {}
        busy = self.busy(context)
        if busy:
            if self.must:
                raise ResourceFailed("%s has processes here: %s" % (self.user, listed(busy)))
            context.remark = self.kept(busy) + (CLOSED if self.closes else "")
            return {"login": login} if self.closes else {}
        return {"uid": found.pw_uid, "login": login}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Close the account first, then remove keys and account; LeftAsItWas of processes, ResourceFailed."""
        found = find_user(context, self.user)
        if found is None:
            return
        if "login" in differing:
            argv = ["usermod", *shadow_prefix(context), "--lock", "--expiredate", CLOSED_SINCE, self.user]
            context.must(argv)
        if "uid" not in differing:
            return
        keys = AuthorizedKeys(self.user, self.uid, found.pw_gid, self.home, ())
        context.remark = ""
        try:
            if keys.actual(context) != keys.wanted(context):
                keys.converge(context, differing)
        except (LeftAsItWas, ResourceFailed) as remark:
            # A home that does not answer keeps nobody's account open.
            context.remark = str(remark)
        left = context.remark
        self.stop_manager(context)
        argv = ["userdel", *shadow_prefix(context), self.user]
        if self.busy(context) or context.run(argv).returncode == IN_USE:
            raise LeftAsItWas(self.kept(self.processes(context)) + CLOSED)
        if find_user(context, self.user) is not None:
            context.must(argv)
        context.remark = "%s stays, with UID %d" % (self.home, self.uid)
        if left:
            context.remark += ". The SSH keys in it stay as well: %s" % left

    def stop_manager(self, context: Context) -> None:
        """Stop the user's systemd, which the user can delay; it is killed then."""
        if not self.processes(context):
            return
        unit = "user@%d.service" % self.uid
        try:
            context.run(["systemctl", "stop", unit], seconds=STOP_SECONDS)
        except ResourceFailed:
            context.run(["systemctl", "kill", "--signal=KILL", unit])
            context.run(["systemctl", "stop", unit])

    def processes(self, context: Context) -> List[Process]:
        """The processes with the user's UID."""
        return with_numbers(context, {self.uid}, ())

    def busy(self, context: Context) -> List[Process]:
        """The processes that the user started."""
        return [process for process in self.processes(context) if not is_manager(process)]

    def kept(self, processes: List[Process]) -> str:
        """The remark about an account that stays because of processes."""
        return "the user %s was not removed, because of running processes: %s" % (self.user, listed(processes))


def is_manager(process: Process) -> bool:
    """Whether a process is systemd's user manager and not a program that the user started."""
    return process.command in MANAGERS and process.unit.startswith("user@")
