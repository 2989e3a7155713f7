"""How far slurmdbd is with the conversion at its first start in a new version, by log and server."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.files.free_space import nearest, shortage
from slurmfab.on_hosts.agent.services import daemon_log
from slurmfab.on_hosts.agent.services.listening import listens
from slurmfab.on_hosts.agent.services.service import show
from slurmfab.on_hosts.agent.upgrade.reading import PLACE
from slurmfab.on_hosts.agent.upgrade.renewed_daemon import SLURMDBD, STARTS

STATEMENTS = (
    "select time_ms div 1000, round(progress), replace(replace(left(info, 120), '\\n', ' '), '\\t', ' ')"
    " from information_schema.processlist where db = %s and command = 'Query' and info not like '%%processlist%%'"
    " order by time_ms desc limit 1;"
)
TABLE = re.compile(
    r"^\s*(?:alter table|update|insert into|create table(?: if not exists)?)\s+[`\"]?([\w.]{1,100})", re.I
)


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """The state of the conversion.

    `request`: `port`: of slurmdbd. `database`: its name; empty if the server is elsewhere. Returns `state`: `done` when
    slurmdbd listens, `converting` while it runs and does not, `ended` if it does not run. `table`: the table at work,
    empty if unknown. `seconds`: for how long. `percent`: of the statement, -1 if unknown. `words`: the last errors of
    slurmdbd, if it has ended; and that the database's disk is full, for slurmdbd 26.05 may crash before it says so.
    """
    state = show(context, SLURMDBD).get("ActiveState")
    answer: Dict[str, Any] = {"state": "ended", "table": "", "seconds": 0, "percent": -1, "words": []}
    if state not in STARTS:
        words = daemon_log.last_words(context, SLURMDBD, daemon_log.last_start(context, SLURMDBD))
        return {**answer, "words": words + full_disk(context, request.get("database", ""))}
    if state == "active" and listens(int(request["port"])):
        return {**answer, "state": "done"}
    return {**answer, "state": "converting", **statement(context, request.get("database", ""))}


def full_disk(context: Context, database: str) -> List[str]:
    """What the file system of the database lacks, in a sentence; empty if it has room, or the server is elsewhere."""
    if not database:
        return []
    place = "/var/lib/mysql"  # of a server that has ended, too
    with suppress(ResourceFailed, ValueError):
        ((place,),) = mariadb.sql(context, PLACE)
    why = shortage(os.statvfs(nearest(context.path(place))))
    return ["the file system of %s is full (%s)" % (place.rstrip("/"), why)] if why else []


def statement(context: Context, database: str) -> Dict[str, Any]:
    """The statement that converts a table now: `table`, `seconds` and `percent`; empty if there is none."""
    if not database:
        return {}
    try:
        rows: List[List[str]] = mariadb.sql(context, STATEMENTS % mariadb.quoted(database))
    except ResourceFailed:
        return {}
    for row in rows:
        found = TABLE.match(row[2]) if len(row) > 2 else None  # noqa: PLR2004 - three columns are asked for
        if found:
            percent = int(float(row[1])) if row[1] not in ("", "NULL") else -1
            return {"table": found.group(1), "seconds": int(float(row[0])), "percent": percent}
    return {}
