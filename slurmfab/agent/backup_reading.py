"""What a host has of its own that a restoration would replace: slurmctld's state, and the accounting database."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Mapping

from slurmfab.agent import mariadb
from slurmfab.agent.backup_state import JOBS, as_owner, files_below, job_id
from slurmfab.agent.resource import Context, ResourceFailed
from slurmfab.agent.service import is_active
from slurmfab.agent.staged_parts import is_done

NEWEST = "select max(id_job) from %s;"
JOB_TABLES = (
    "select table_name from information_schema.tables where table_schema = %s and table_name like '%%job_table';"
)


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What is there.

    Args:
        request: `directory`: StateSaveLocation, empty for a host that is no controller. `database`: the name of the
            one of this host, empty for none. `staged` and `sha256`: the part of a backup that would replace it.
        context: runs programs.

    Returns:
        `next_job_id`: the number that the next job gets by slurmctld's state, 0 where no job was ever submitted.
        `state_files`: how many files the state has. `is_running`: whether slurmctld runs. `newest_job`: the highest
        number of a job in the database, 0 where there is none. `is_done`: whether it was replaced already, by a
        restoration that was cut off later.
    """
    return {
        "is_done": is_done(context, request["staged"], request["sha256"]),
        **(state(context, request["directory"]) if request.get("directory") else {}),
        **({"newest_job": newest_job(context, request["database"])} if request.get("database") else {}),
    }


def state(context: Context, path: str) -> Dict[str, Any]:
    """What there is of slurmctld's state."""
    directory, number, files = context.path(path), 0, 0
    if os.path.isdir(directory):
        with as_owner(directory):
            files = len(files_below(directory))
            with contextlib.suppress(OSError, ResourceFailed), open(os.path.join(directory, JOBS), "rb") as file:
                number = job_id(file)
    return {"next_job_id": number, "state_files": files, "is_running": is_active(context, "slurmctld")}


def newest_job(context: Context, database: str) -> int:
    """The highest number of a job in the database of this host; 0 where there is no such database, or no server."""
    try:
        tables = [row[0] for row in mariadb.sql(context, JOB_TABLES % mariadb.quoted(database))]
        places = ["%s.%s" % (mariadb.identifier(database), mariadb.identifier(table)) for table in tables]
        rows = [row for place in places for row in mariadb.sql(context, NEWEST % place)]
    except ResourceFailed:
        return 0
    return max((int(row[0]) for row in rows if row[0].isdigit()), default=0)
