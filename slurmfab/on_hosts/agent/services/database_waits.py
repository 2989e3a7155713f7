"""What slurmdbd waits for in MariaDB: a table that another session has locked, as a backup or a person does."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

SESSIONS = (
    "SELECT id, user, SUBSTRING_INDEX(host, ':', 1), command, time, IFNULL(state, '') "
    "FROM information_schema.processlist WHERE command IN ('Query', 'Sleep')"
)
"""Prints the sessions of MariaDB, without what they ask."""

LATE_SECONDS = 10  # queries of slurmdbd take milliseconds, and those that add up a month's use wait for nobody
_COLUMNS = 6
_SQL_SECONDS = 10.0
_MOST_NAMED = 3


class Session(NamedTuple):
    """A connection to MariaDB."""

    id: int
    user: str
    host: str
    command: str  # `Query`, or `Sleep` between two
    seconds: int  # in this state
    state: str  # what a query does

    @property
    def waits(self) -> bool:
        """Whether it waits for a lock for so long that it is no queue any more."""
        return self.command == "Query" and "lock" in self.state.lower() and self.seconds >= LATE_SECONDS


def told(rows: Sequence[Sequence[str]]) -> str:
    """What waits for a lock, since when, and who may have it, with the repair; empty where nothing waits."""
    sessions = [
        Session(int(row[0]), row[1], row[2], row[3], int(row[4]), row[5])
        for row in rows
        if len(row) == _COLUMNS and row[0].isdecimal() and row[4].isdecimal()
    ]
    waiting = sorted((one for one in sessions if one.waits), key=lambda one: -one.seconds)
    if not waiting:
        return ""
    first = waiting[0]
    own = {one.user for one in waiting}
    holders = [one for one in sessions if one.user not in own and one.seconds >= first.seconds]
    text = "in MariaDB, %s of the user %s %s waited for %d s (%s)" % (
        "a query" if len(waiting) == 1 else "%d queries" % len(waiting), first.user,
        "has" if len(waiting) == 1 else "have", first.seconds, first.state,
    )  # fmt: skip
    if not holders:
        return text + "; which session has the lock: mariadb --execute 'SHOW FULL PROCESSLIST' there"
    named = ", ".join("%d of %s@%s (%s for %d s)" % (one.id, one.user, one.host, one.command.lower(), one.seconds)
                      for one in holders[:_MOST_NAMED])  # fmt: skip
    return "%s. What has the lock is older: session %s. To end it: mariadb --execute 'KILL %d' there" % (
        text, named, holders[0].id,
    )  # fmt: skip


def of_database(context: Context) -> str:
    """The same of this host's MariaDB; empty where it has none that root may ask."""
    client = ("mariadb", "--batch", "--skip-column-names", "--protocol=socket", "--user=root", "--execute=" + SESSIONS)
    try:
        return told(rows_in(context.run(client, seconds=_SQL_SECONDS).stdout.decode(errors="replace")))
    except ResourceFailed:
        return ""


def rows_in(shown: str) -> List[List[str]]:
    """The rows that `mariadb --batch --skip-column-names` printed."""
    return [line.split("\t") for line in shown.splitlines()]
