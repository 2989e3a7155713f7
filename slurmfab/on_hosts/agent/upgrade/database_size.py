"""How large the accounting database is, and how many rows its big tables have, as its server estimates them."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Mapping

from slurmfab.on_hosts.agent.backup.database import CLIENT_ENVIRONMENT, find_client, login
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.database.mariadb import explain_error, quoted

QUERY = (
    "select table_name, coalesce(table_rows, 0), coalesce(data_length + index_length, 0) "
    "from information_schema.tables where table_schema = %s;"
)
BIG = ("_job_table", "_step_table", "_job_env_table", "_job_script_table", "_event_table", "_suspend_table",
       "_assoc_usage_hour_table", "_wckey_usage_hour_table")  # fmt: skip
"""How the names of tables end that grow with the jobs of a cluster; its name comes first."""

PLACE = "select @@datadir;"
SECONDS = 120


def read(stack: contextlib.ExitStack, context: Context, name: str, settings: str) -> Dict[str, Any]:
    """Ask the server.

    Args:
        settings: path of the slurmdbd.conf with the login for an external server; empty for this host's server.

    Returns:
        `rows`: by table, of those that grow with the jobs; `bytes`: of all tables with their indexes; `place`: the
        server's data directory, empty for an external server.

    Raises:
        ResourceFailed: there is no client, or the server does not answer or refuses.
    """
    options, descriptors = login(stack, context, settings)
    rows = [line.split("\t") for line in ask(options, descriptors, QUERY % quoted(name)).splitlines()]
    found = {row[0]: (int(row[1]), int(row[2])) for row in rows if len(row) == 3}  # noqa: PLR2004
    place = "" if settings else ask(options, descriptors, PLACE).strip()
    return {
        "rows": {table: count for table, (count, _) in sorted(found.items()) if table.endswith(BIG)},
        "bytes": sum(size for _, size in found.values()),
        "place": place,
    }


def ask(options: Any, descriptors: Any, statements: str) -> str:
    """A server's answer as lines with tabs; ResourceFailed if there is no client, or it is silent or refuses."""
    import subprocess  # few requests need it

    argv = [find_client("mariadb", "mysql"), *options, "--batch", "--raw", "--skip-column-names"]
    environment: Mapping[str, str] = CLIENT_ENVIRONMENT
    try:
        done = subprocess.run(
            argv,
            input=statements.encode(),
            capture_output=True,
            timeout=SECONDS,
            env=environment,
            check=False,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceFailed("the database did not answer: %s" % error) from error
    if done.returncode != 0:
        raise ResourceFailed(explain_error(done.stderr.decode(errors="replace")))
    return done.stdout.decode(errors="replace")
