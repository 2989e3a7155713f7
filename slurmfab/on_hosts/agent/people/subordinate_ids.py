"""The ranges of further UIDs and GIDs that users have for containers, in /etc/subuid and /etc/subgid."""

from __future__ import annotations

import re
from typing import ClassVar, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.core import host_records, replace
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.passwd_files import locked
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user

OF = "subordinate-ids"  # the capability's name in the records of files
RECORD = "%s/%s.json" % (OWNED, OF)  # by file and user, the lines that the user had before slurmfab's
USERS = "the record of users"  # the name in a state for the users in the record

FILES = {"/etc/subuid": ("/etc/passwd", "UID"), "/etc/subgid": ("/etc/group", "GID")}
"""The files, each with that of the numbers which somebody has already."""


LINE = re.compile(r"([^:]+):(\d{1,10}):(\d{1,10})")
"""A line of subuid(5): a user's name or UID, the first number, and how many there are."""


class Range(NamedTuple):
    """The numbers of a line of subuid(5)."""

    first: int
    last: int
    owner: str


class SubordinateIds(Resource):
    """A range of numbers for each user, in both files; what other users have there stays.

    A user who had other numbers, such as those that useradd(8) gives in the order of creation, gets these back when
    slurmfab's go.
    """

    kind: ClassVar[str] = "subordinate-ids"
    only_name: ClassVar[str] = "containers"
    ranges: Tuple[Tuple[str, int], ...]  # name and first number of each user
    count: int = 65536  # how many numbers each user gets

    def touches(self, differing: FrozenSet[str]) -> Tuple[str, ...]:
        """The files that differ, and the record."""
        return (*sorted(path for path in FILES if path in differing), RECORD)

    def lines(self) -> Dict[str, str]:
        """The wanted line of each user, the same in both files."""
        return {user: "%s:%d:%d" % (user, first, self.count) for user, first in self.ranges}

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The lines of all users in both files."""
        lines = self.lines()
        return {**{path: lines_text(lines.values()) for path in FILES}, USERS: " ".join(sorted(lines))}

    def actual(self, context: Context) -> State:
        """The present lines of these users and slurmfab's former; ResourceFailed if others have their numbers."""
        refused = [reason for path in FILES for reason in self.taken(context, path)]
        if refused:
            raise ResourceFailed(
                "%s. Remove that line if nobody needs it, or give one of the two another UID" % "; ".join(refused[:3])
            )
        before = host_records.read(context, RECORD)
        state: Dict[str, Optional[str]] = {
            path: lines_text(line for line in read(context, path) if self.is_own(line, before.get(path, {})))
            for path in FILES
        }
        return {**state, USERS: " ".join(sorted({user for users in before.values() for user in users}))}

    def is_own(self, line: str, before: Dict[str, List[str]]) -> bool:
        """Whether a line is about a user with a wanted range, or is slurmfab's line of a former one."""
        user = line.partition(":")[0]
        return user in self.lines() or (user in before and line not in before[user])

    def taken(self, context: Context, path: str) -> Iterator[str]:
        """Yield the wanted ranges in which somebody else has numbers: another user's range, or a user or group."""
        users, (numbers, kind) = self.lines(), FILES[path]
        before = host_records.read(context, RECORD).get(path, {})
        theirs = [one for one in map(parsed, read(context, path)) if one and one.owner not in {**users, **before}]
        for fields in entries(context.path(numbers)):
            for number in fields[2:3]:
                if number.isdecimal():
                    theirs.append(Range(int(number), int(number), "%s (%s)" % (fields[0], kind)))
        theirs.sort()
        ours = sorted(Range(first, first + self.count - 1, user) for user, first in self.ranges)
        place = 0
        for one in theirs:
            while place < len(ours) and ours[place].last < one.first:
                place += 1
            if place < len(ours) and ours[place].first <= one.last:
                text = "%s: %s has numbers from %d on, which are among the subordinate %ss of %s (%d to %d)"
                yield text % (path, one.owner, one.first, kind, ours[place].owner, *ours[place][:2])

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Keep what users had before, and write both files in one step each; ResourceFailed if locked."""
        with locked(context):
            earlier = host_records.read(context, RECORD)
            record = {path: dict(earlier.get(path, {})) for path in FILES}
            for path in sorted(FILES):
                note(record[path], self.lines(), read(context, path))
            host_records.write(context, RECORD, record)
            for path in sorted(differing & set(FILES)):
                self.write(context, path, record[path])
            for path, users in record.items():
                record[path] = {user: lines for user, lines in users.items() if user in self.lines()}
            host_records.write(context, RECORD, record if self.ranges else {})

    def write(self, context: Context, path: str, before: Dict[str, List[str]]) -> None:
        """Write a file anew: the lines of others, those that former users had before, and slurmfab's."""
        there, lines = replace.find(context.path(path)), self.lines()
        kept = [line for line in read(context, path) if line.partition(":")[0] not in {**lines, **before}]
        back = [
            line
            for user, earlier in before.items()
            if user not in lines and find_user(context, user) is not None
            for line in earlier
        ]
        text = "".join(line + "\n" for line in (*kept, *back, *lines.values()))
        status = there[0] if there else None
        access = (status.st_uid, status.st_gid, status.st_mode & 0o7777) if status else (0, 0, 0o644)
        replace.put(context.path(path), text.encode("utf-8", "surrogateescape"), *access)


def note(before: Dict[str, List[str]], wanted: Dict[str, str], lines: List[str]) -> None:
    """Note the lines before slurmfab's, by user, of those who get the wanted ones for the first time."""
    new = {user: [] for user in wanted if user not in before}  # type: Dict[str, List[str]]
    for line in lines:
        user = line.partition(":")[0]
        if user in new and line != wanted[user]:
            new[user].append(line)
    before.update(new)


def read(context: Context, path: str) -> List[str]:
    """The lines of a file; none where it is missing."""
    return (replace.read(context.path(path)) or b"").decode("utf-8", "surrogateescape").splitlines()


def parsed(line: str) -> Optional[Range]:
    """The numbers of a line; `None` if it is something else."""
    found = LINE.fullmatch(line)
    return Range(int(found[2]), int(found[2]) + int(found[3]) - 1, found[1]) if found else None


def lines_text(lines: Iterable[str]) -> Optional[str]:
    """Lines as a value of a state."""
    return "".join(line + "\n" for line in sorted(lines)) or None
