"""The host's present state that a restoration would replace: slurmctld's state and the accounting database."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Mapping

from slurmfab.on_hosts.agent.backup.staged_parts import is_done
from slurmfab.on_hosts.agent.backup.state import JOB_LIST, as_owner, files_below, job_id
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.services.service import is_active

NEWEST_JOB_QUERY = "select max(id_job) from %s;"
JOB_TABLES_QUERY = (
    "select table_name from information_schema.tables where table_schema = %s and table_name like '%%job_table';"
)


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Describe the present state.

    `request`: `directory`: StateSaveLocation, missing or empty if the host is not a controller. `database`: the name of
    this host's database, missing or empty for none. `staged` and `sha256`: the backup's part that would replace it.
    Returns `next_job_id`: the next job's id by slurmctld's state, 0 if no job was ever submitted. `state_files`: number
    of files in the state. `is_running`: whether slurmctld runs. `newest_job`: highest job id in the database, 0 for
    none. `is_done`: whether the part was already restored, by a restoration that was interrupted later.
    """
    return {
        "is_done": is_done(context, request["staged"], request["sha256"]),
        **(state(context, request["directory"]) if request.get("directory") else {}),
        **({"newest_job": newest_job(context, request["database"])} if request.get("database") else {}),
    }


def state(context: Context, path: str) -> Dict[str, Any]:
    """slurmctld's state: the next job id, the number of files, and whether slurmctld runs."""
    directory, number, files = context.path(path), 0, 0
    if os.path.isdir(directory):
        with as_owner(directory):
            files = len(files_below(directory))
            with contextlib.suppress(OSError, ResourceFailed), open(os.path.join(directory, JOB_LIST), "rb") as file:
                number = job_id(file)
    return {"next_job_id": number, "state_files": files, "is_running": is_active(context, "slurmctld")}


def newest_job(context: Context, database: str) -> int:
    """The highest job id in this host's database; 0 if there is no such database or no server."""
    try:
        tables = [row[0] for row in mariadb.sql(context, JOB_TABLES_QUERY % mariadb.quoted(database))]
        places = ["%s.%s" % (mariadb.identifier(database), mariadb.identifier(table)) for table in tables]
        rows = [row for place in places for row in mariadb.sql(context, NEWEST_JOB_QUERY % place)]
    except ResourceFailed:
        return 0
    return max((int(row[0]) for row in rows if row[0].isdecimal()), default=0)
