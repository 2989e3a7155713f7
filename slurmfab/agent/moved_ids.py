"""A system user and its group with other numbers than they had, and with all of their local files."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Dict, List, Tuple

from slurmfab.agent import mounts
from slurmfab.agent.account_files import edit
from slurmfab.agent.accounts import find_group, find_user
from slurmfab.agent.id_processes import Process, with_numbers
from slurmfab.agent.owned_files import Tally, Walk
from slurmfab.agent.reading import entries
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import show

NUMBER, PRIMARY_GID = 2, 3
"""Which fields of passwd(5) they are; in group(5) the number is at the same place."""

NSCD = "/run/nscd/socket"
"""There while nscd(8) runs, which remembers users and groups."""

DOWN = ("inactive", "failed", None)
"""ActiveStates of a unit that nothing is done about."""

TOLD = 5
"""How many files or processes a message names."""


class MovedIds(Resource):
    """A user and the group of the same name with these numbers, and with the files that carried the old ones.

    Files come first and the entries in /etc/passwd and /etc/group last. Whoever is cut off in between finds the old
    number still there, and goes on: what was given the new number is not touched again.

    Args:
        user: name of the user, and of its group; one that does not exist is not made.
        uid: the user's number.
        gid: the group's number; it becomes the user's primary group.
        daemons: services that are stopped meanwhile, in this order; who starts them again finds them not running.
        needed: directories that the services cannot do without; see `refuse_foreign`.
    """

    kind: ClassVar[str] = "moved-ids"
    user: str
    uid: int
    gid: int
    daemons: Tuple[str, ...] = ()
    needed: Tuple[str, ...] = ()

    def name(self) -> str:
        """The user's name."""
        return self.user

    def units(self) -> Tuple[str, ...]:
        """The services; whoever undoes the run has to know that they ran."""
        return self.daemons

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The numbers."""
        return {"uid": self.uid, "gid": self.gid, "primary gid": self.gid}

    def numbers(self, context: Context) -> Dict[str, int]:
        """The numbers that user and group have; those of what does not exist are taken to be right."""
        user, group = find_user(context, self.user), find_group(context, self.user)
        gid = self.gid if group is None else group
        follows = user is None or user.pw_gid == gid
        return {
            "uid": self.uid if user is None else user.pw_uid,
            "gid": gid,
            "primary gid": self.gid if user is None or follows else user.pw_gid,
        }

    def actual(self, context: Context) -> State:
        """The numbers; in a dry run, where they differ, the files and processes that carry the old ones are counted.

        Raises:
            ResourceFailed: it would not be safe to move them.
        """
        now = self.numbers(context)
        if now != self.wanted(context):
            self.refuse_entries(context, now)
            self.refuse_foreign(context, now)
            processes = self.refuse_processes(context, now)
            if context.dry_run:
                context.remark = self.foretold(context, self.walk(context, now, False), len(processes))
        return now

    def foretold(self, context: Context, tally: Tally, processes: int) -> str:
        """What moving would come to, such as `1234 files below /var (local file systems), 2 processes; …`."""
        count = "%s, %d process%s" % (tally, processes, "" if processes == 1 else "es")
        daemons = self.active(context)
        context.stopped.update(daemons)
        if not daemons:
            return count
        waiting = "; without slurmctld, Slurm's commands wait" if "slurmctld" in daemons else ""
        return "%s; %s stop%s for it, running jobs go on%s" % (
            count, ", ".join(daemons), "s" if len(daemons) == 1 else "", waiting)  # fmt: skip

    def active(self, context: Context) -> List[str]:
        """Those of the services that run now, or are about to."""
        return [unit for unit in self.daemons if show(context, unit).get("ActiveState") not in DOWN]

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Stop the services, give the files away, then change the numbers.

        Raises:
            ResourceFailed: a process or a file keeps the old number; so do the entries.
        """
        old = self.numbers(context)
        running = self.active(context)
        if running:
            context.must(["systemctl", "stop", *running], seconds=180)
        try:
            self.refuse_processes(context, old, stopped=True)
        except ResourceFailed:
            if running:
                context.run(["systemctl", "start", *reversed(running)], seconds=180)
            raise
        tally = self.walk(context, old, True)
        if tally.failed:
            raise ResourceFailed(
                "%s cannot be given the new number, %d could: %s; %s keeps the old one, and what uses it stays "
                "stopped, until they can (lsattr shows whether a file is immutable)"
                % (counted(len(tally.failed), "file"), len(tally.seen), "; ".join(tally.failed[:TOLD]), self.user)
            )
        self.refuse_processes(context, old, stopped=True)
        edit(context, "/etc/passwd", lambda fields: self.in_passwd(fields, old))
        edit(context, "/etc/group", self.in_group)
        if os.path.exists(context.path(NSCD)):
            context.run(["nscd", "--invalidate=passwd"])
            context.run(["nscd", "--invalidate=group"])
        context.remark = "moved %s" % tally

    def walk(self, context: Context, old: State, change: bool) -> Tally:
        """Count, or change, all local files that carry the old numbers."""
        return Walk(context, self.pair(old, "uid"), self.pair(old, "gid"), change).go()

    def pair(self, old: State, kind: str) -> Dict[int, int]:
        """The new number by the old one, empty if they are the same."""
        new = self.uid if kind == "uid" else self.gid
        return {} if old[kind] == new else {old[kind]: new}

    def in_passwd(self, fields: List[str], old: State) -> List[str]:
        """A line of passwd(5) with the new numbers; others whose primary group this is stay in it."""
        if len(fields) <= PRIMARY_GID:
            return fields
        uid, gid = fields[NUMBER], fields[PRIMARY_GID]
        if fields[0] == self.user:
            uid, gid = str(self.uid), str(self.gid)
        elif gid == str(old["gid"]):
            gid = str(self.gid)
        return [*fields[:NUMBER], uid, gid, *fields[PRIMARY_GID + 1 :]]

    def in_group(self, fields: List[str]) -> List[str]:
        """A line of group(5) with the new number, if it is this group's."""
        return [*fields[:NUMBER], str(self.gid), *fields[NUMBER + 1 :]] if fields[0] == self.user else fields

    def refuse_entries(self, context: Context, old: State) -> None:
        """Refuse numbers that are not this user's and group's alone, or not written in this host's own files.

        Raises:
            ResourceFailed: with the name of the other one.
        """
        for file, kind, new in (("passwd", "uid", self.uid), ("group", "gid", self.gid)):
            if old[kind] == new:
                continue
            names: Dict[str, List[str]] = {}
            for fields in entries(context.path("/etc/" + file)):
                names.setdefault(fields[NUMBER], []).append(fields[0])
            if self.user not in names.get(str(old[kind]), []):
                words = "%s has the %s %d, but not by /etc/%s; where it comes from (getent -s), it has to be changed"
                raise ResourceFailed(words % (self.user, kind.upper(), old[kind], file))
            others = [one for number in (old[kind], new) for one in names.get(str(number), []) if one != self.user]
            if others:
                words = "%s shares the %s %d with %s, or would share %d; free the number first"
                raise ResourceFailed(words % (self.user, kind.upper(), old[kind], ", ".join(others), new))

    def refuse_foreign(self, context: Context, old: State) -> None:
        """Refuse when directories that are needed are on a file system of others, where nothing is ever changed.

        Raises:
            ResourceFailed: with the command to run, once and anywhere, when all daemons are stopped.
        """
        found = mounts.read(context.path("/proc/self/mountinfo"))
        for path in ("/", *self.needed):
            mount = mounts.at(path, found)
            if mount is None or mount.is_local:
                continue
            if path == "/":
                words = "the root of this host is on %s, which is not its own; move %s where that comes from"
                raise ResourceFailed(words % (mount.type, self.user))
            try:
                status = os.lstat(context.path(path))
            except FileNotFoundError:
                continue
            if status.st_uid in self.pair(old, "uid") or status.st_gid in self.pair(old, "gid"):
                chown = "chown -hR --from=%d %d %s; chown -hR --from=:%d :%d %s" % (
                    old["uid"], self.uid, path, old["gid"], self.gid, path)  # fmt: skip
                words = "%s is on %s, which is never gone through here; with %s stopped on all hosts, do on one: %s"
                raise ResourceFailed(words % (path, mount.type, ", ".join(self.daemons) or "all that uses it", chown))

    def refuse_processes(self, context: Context, old: State, stopped: bool = False) -> List[Process]:
        """The services' processes that have the old numbers; any other one is a reason to leave all as it is.

        Args:
            context: the request's context.
            old: the numbers.
            stopped: whether the services have been stopped, so that no process at all is theirs.

        Raises:
            ResourceFailed: with their numbers and names.
        """
        found = with_numbers(context, self.pair(old, "uid"), self.pair(old, "gid"))
        others = [one for one in found if stopped or one.unit not in self.daemons]
        if others:
            told = ", ".join(str(one) for one in others[:TOLD]) + (", …" if len(others) > TOLD else "")
            raise ResourceFailed(
                "processes run with the number that %s has here (UID %d, GID %d): %s; end them first"
                % (self.user, old["uid"], old["gid"], told)
            )
        return found


def counted(number: int, thing: Any) -> str:
    """A number of things."""
    return "%d %s%s" % (number, thing, "" if number == 1 else "s")
