"""A backup that a host makes on its own, started by a systemd timer, and stored in a directory of the host.

The file has the format of `fab backup`, without the cluster file and the lock, which hosts do not have. On a failure
the exit code is not 0, so that systemd counts the service as failed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.database import save_database
from slurmfab.on_hosts.agent.backup.state import save_files, save_state
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import refuse_others


def main(settings: str) -> int:
    """Make a backup and remove the oldest ones.

    `settings`: path of a JSON file: `cluster`, `directory`, `keep` (number of backups), `files` (a directory to save),
    and, where this host has them: `state` (StateSaveLocation), `key` (path of the munge key), `database` (its name),
    `login` (path of the slurmdbd.conf with the login for an external database), `encrypt_to` (public keys of age).
    Returns the exit code: 0, or 1 after a failure.
    """
    os.umask(0o077)
    try:
        with open(settings, encoding="utf-8") as file:
            wanted = json.load(file)
        path = make_backup(wanted, Context())
        gone = rotate(wanted)
    except (ResourceFailed, OSError) as error:
        print("The backup failed and was removed: %s" % reason(error), file=sys.stderr)  # noqa: T201
        return 1
    print("%s: %d bytes; %d old ones removed" % (path, os.path.getsize(path), len(gone)))  # noqa: T201
    return 0


def make_backup(wanted: Mapping[str, Any], context: Context) -> str:
    """Make a backup, and return its path. Raises ResourceFailed, OSError if the backup failed; its file was removed."""
    directory = wanted["directory"]
    if os.stat(directory).st_mode & 0o077:
        raise ResourceFailed("%s is accessible to other users: chmod 700 %s" % (directory, directory))
    refuse_others(directory)
    parts.sweep(directory)
    now = time.time()
    name = "%s-%s" % (prefix(wanted), parts.stamp(now))
    archive = parts.Archive(directory, name, recipients=wanted.get("encrypt_to", ()))
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
            save_database({"name": wanted["database"], "settings": wanted.get("login", "")}, context, archive.write)
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
    """Prefix of the names of this host's backups."""
    return "%s-%s" % (wanted["cluster"], os.uname().nodename.split(".")[0])


def version(context: Context) -> str:
    """The upstream version of the installed Slurm. Raises ResourceFailed if Slurm is not installed."""
    return context.must(commands.VERSION).split()[-1]


def rotate(wanted: Mapping[str, Any]) -> List[str]:
    """Remove this host's oldest backups except the newest `keep`, and return their names."""
    ours = re.compile(re.escape(prefix(wanted)) + r"-\d{8}T\d{6}Z(-\d+)?" + re.escape(parts.SUFFIX))
    there = sorted(name for name in os.listdir(wanted["directory"]) if ours.fullmatch(name))
    gone = there[: -wanted["keep"]]
    for name in gone:
        os.unlink(os.path.join(wanted["directory"], name))
    return gone
