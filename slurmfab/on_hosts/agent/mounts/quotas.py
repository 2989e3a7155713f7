"""Quotas of users: what repquota(8) reports, and the resource that sets limits."""

from __future__ import annotations

import re
from typing import ClassVar, Dict, Iterable, List, NamedTuple, Tuple

from slurmfab.on_hosts.agent.core import host_records, mounts
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user
from slurmfab.on_hosts.agent.mounts import mount_units

OF = "quota"  # the capability's name among `owned` of the facts

ROW = re.compile(r"^#?(\d+),[^,\n]*,[^,\n]*,(\d+),(\d+),(\d+),[^,\n]*,\d+,(\d+),(\d+),[^,\n]*$", re.MULTILINE)
"""UID, KiB used, soft and hard limit of KiB, and of files: User, BlockStatus, FileStatus, BlockUsed, ..."""


class Limits(NamedTuple):
    """What a user has and may have on a file system; 0 is no limit."""

    used: int
    soft: int
    hard: int
    soft_files: int
    hard_files: int


NONE = Limits(0, 0, 0, 0, 0)


class NoQuotas(Exception):
    """The file system has no quotas; the text is repquota's."""


def repquota(point: str) -> List[str]:
    """The command that prints the limits of all users on the file system of a mount point."""
    return ["repquota", "-u", "-n", "-O", "csv", "--", point]


def read_quotas(context: Context, point: str) -> Dict[int, Limits]:
    """The limits by UID; NoQuotas if repquota prints none, ResourceFailed if it is missing or does not end."""
    done = context.run(repquota(point))
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoQuotas(" | ".join(line.partition("repquota: ")[2] or line for line in lines[-2:]) or "repquota failed")
    return parse_quotas(done.stdout.decode(errors="replace"))


def parse_quotas(text: str) -> Dict[int, Limits]:
    """The limits by UID in what repquota has printed."""
    return {int(uid): Limits(*map(int, numbers)) for uid, *numbers in ROW.findall(text)}


def limits_text(soft: int, hard: int) -> str:
    """Limits in KiB for states and messages.

    >>> limits_text(52428800, 0)
    'soft 52428800 KiB, hard none'
    """
    return "soft %s, hard %s" % tuple("%d KiB" % value if value else "none" for value in (soft, hard))


RECORD = "%s/%s.json" % (OWNED, OF)
NOTED = "the record of limited users"  # the name in a state for the users in the record

NO_QUOTAS = (
    "%s cannot limit users: %s. Mount it with quotas of users, by the option usrquota (ext4 also needs "
    "`tune2fs -O quota`), and deploy again"
)


class Limited(NamedTuple):
    """A user with limits."""

    user: str
    uid: int
    point: str


class UserQuotas(Resource):
    """The limits of users on the file system that a directory is on, and no former ones of slurmfab's.

    Limits of numbers of files stay as they are. A file system without quotas gives a remark: it has to be mounted with
    them, which is for those who made it.
    """

    kind: ClassVar[str] = "user-quotas"
    UNSHOWN = ("limits",)
    path: str  # the directory; empty to take all limits back
    # User, UID, soft and hard limit in KiB, where 0 is no limit; UID 0 for that of the host's user database.
    limits: Tuple[Tuple[str, int, int, int], ...]

    def name(self) -> str:
        """The directory."""
        return self.path or "former"

    def wanted(self, context: Context) -> State:
        """The limits by user, none for former ones, and a record of who has any."""
        state: Dict[str, object] = {key(one): limits_text(0, 0) for one in record(context)}
        own = self.own(context)
        state.update({key(one): limits_text(*limits) for one, limits in own.items()})
        return {**state, NOTED: noted(own)}

    def actual(self, context: Context) -> State:
        """The same as repquota prints it; of a file system without quotas, with a remark, as if it were right."""
        wanted, noted_users = self.wanted(context), record(context)
        state: Dict[str, object] = {NOTED: noted(noted_users)}
        entries = list(dict.fromkeys((*noted_users, *self.own(context))))
        for point in points(entries):
            here = [one for one in entries if one.point == point]
            try:
                report = read_quotas(context, point)
            except NoQuotas as trouble:
                context.remark = NO_QUOTAS % (point, trouble)
                state.update({key(one): wanted[key(one)] for one in here}, **{NOTED: wanted[NOTED]})
                continue
            except ResourceFailed:
                continue  # an earlier phase installs repquota
            found = {one: report.get(one.uid, NONE) for one in here}
            state.update({key(one): limits_text(has.soft, has.hard) for one, has in found.items()})
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Set what differs, after a note of who will have limits; ResourceFailed in setquota's words."""
        own, before = self.own(context), record(context)
        entries = list(dict.fromkeys((*before, *own)))
        note(context, entries)
        for point in points(entries):
            here = [one for one in entries if one.point == point and key(one) in differing]
            report = read_quotas(context, point) if here else {}
            lines = []
            for one in here:
                (soft, hard), files = own.get(one, (0, 0)), report.get(one.uid, NONE)
                lines.append("%d %d %d %d %d\n" % (one.uid, soft, hard, files.soft_files, files.hard_files))
            if lines:
                context.must(["setquota", "-u", "-b", "--", point], stdin="".join(lines).encode())
        note(context, list(own))

    def own(self, context: Context) -> Dict[Limited, Tuple[int, int]]:
        """The wanted limits in KiB; those of users whom this host does not know are left out, with a remark."""
        there = mounts.at(self.path, mount_units.table(context)) if self.path else None
        found: Dict[Limited, Tuple[int, int]] = {}
        for user, uid, soft, hard in self.limits:
            known = uid or getattr(find_user(context, user), "pw_uid", 0)
            if known:
                found[Limited(user, known, there.path if there else self.path)] = soft, hard
            else:
                context.remark = "%s has no limits: there is no such user on this host" % user
        return found


def key(one: Limited) -> str:
    """The name of a user's limits in a state."""
    return "%s (UID %d) on %s" % one


def points(entries: List[Limited]) -> List[str]:
    """The mount points of some limits."""
    return sorted({one.point for one in entries})


def noted(entries: Iterable[Limited]) -> object:
    """The users of a record as a value of a state."""
    return " ".join(sorted({one.user for one in entries})) or None


def record(context: Context) -> List[Limited]:
    """Who has limits of slurmfab's."""
    users = host_records.read(context, RECORD).get("users", ())
    return [Limited(str(user), int(uid), str(point)) for user, uid, point in users]


def note(context: Context, entries: List[Limited]) -> None:
    """Note who has limits; nothing is noted of nobody."""
    host_records.write(context, RECORD, {"users": entries} if entries else {})
