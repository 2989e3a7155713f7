"""A backup that a host makes by itself, when systemd's timer says so; it stays on this host, or where that mounts it.

The file is one as `fab backup` makes it, without the cluster file and the lock, which no host has. What goes wrong
ends with an exit code that is not 0, so that systemd counts the service as failed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any, Dict, List, Mapping

from slurmfab.agent import backup_archive as parts
from slurmfab.agent.backup_database import save_database
from slurmfab.agent.backup_state import save_files, save_state
from slurmfab.agent.reasons import reason
from slurmfab.agent.resource import Context, ResourceFailed


def main(settings: str) -> int:
    """Make one, and remove the oldest.

    Args:
        settings: a JSON file: `cluster`, `directory`, `keep`, `files` (a directory to save), and where this host has
            them: `state` (StateSaveLocation), `key` (the munge key's file), `database` (its name), `login` (the
            slurmdbd.conf to log in by, for a database elsewhere).

    Returns:
        The exit code.
    """
    os.umask(0o077)
    try:
        with open(settings, encoding="utf-8") as file:
            wanted = json.load(file)
        path = made(wanted, Context())
        gone = rotate(wanted)
    except (ResourceFailed, OSError) as error:
        print("The backup failed, and nothing is left of it: %s" % reason(error), file=sys.stderr)  # noqa: T201
        return 1
    print("%s: %d bytes; %d old ones removed" % (path, os.path.getsize(path), len(gone)))  # noqa: T201
    return 0


def made(wanted: Mapping[str, Any], context: Context) -> str:
    """Make a backup, and return its path.

    Raises:
        ResourceFailed, OSError: it cannot be made; nothing is left of it.
    """
    directory = wanted["directory"]
    if os.stat(directory).st_mode & 0o077:
        raise ResourceFailed("others may look into %s: chmod 700 %s" % (directory, directory))
    parts.sweep(directory)
    now = time.time()
    archive = parts.Archive(directory, "%s-%s" % (prefix(wanted), parts.stamp(now)))
    try:
        about: Dict[str, Any] = {"next_job_id": 0, "jobs": None}
        if wanted.get("key"):
            with open(wanted["key"], "rb") as file:
                archive.add(parts.KEY, file.read())
        archive.begin()
        save_files({"directory": wanted["files"]}, context, archive.write)
        archive.end(parts.FILES if wanted.get("state") else parts.DATABASE_FILES)
        if wanted.get("state"):
            archive.begin()
            about = save_state({"directory": wanted["state"]}, context, archive.write)
            archive.end(parts.STATE)
        if wanted.get("database"):
            archive.begin()
            request = {"name": wanted["database"], "settings": wanted.get("login", "")}
            save_database(request, context, archive.write)
            archive.end(parts.DATABASE)
        return archive.finish({
            "cluster": wanted["cluster"],
            "made": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(now)),
            "by": "root@%s" % os.uname().nodename,
            "slurm": version(context),
            **about,
            "left_out": {},
        })  # fmt: skip
    finally:
        archive.abandon()


def prefix(wanted: Mapping[str, Any]) -> str:
    """How the names of this host's backups begin."""
    return "%s-%s" % (wanted["cluster"], os.uname().nodename.split(".")[0])


def version(context: Context) -> str:
    """The upstream version of the installed Slurm.

    Raises:
        ResourceFailed: there is none.
    """
    return context.must(["sinfo", "--version"]).split()[-1]


def rotate(wanted: Mapping[str, Any]) -> List[str]:
    """Remove this host's oldest backups, but for as many as are kept; return their names."""
    ours = re.compile(re.escape(prefix(wanted)) + r"-\d{8}T\d{6}Z(-\d+)?" + re.escape(parts.SUFFIX))
    there = sorted(name for name in os.listdir(wanted["directory"]) if ours.fullmatch(name))
    gone = there[: -wanted["keep"]]
    for name in gone:
        os.unlink(os.path.join(wanted["directory"], name))
    return gone
