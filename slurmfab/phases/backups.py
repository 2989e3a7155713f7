"""Backups that the primary controller and the database's host make by themselves: a program, a timer, a directory."""

from __future__ import annotations

import json

from slurmfab.agent.absent import Absent
from slurmfab.agent.directory import Directory
from slurmfab.agent.file import File
from slurmfab.agent.program import Program
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.agent.slurmdbd_conf import PATH as SLURMDBD_CONF
from slurmfab.agent.timer import Timer
from slurmfab.clusterfile.backups import Backup
from slurmfab.phases import programs
from slurmfab.phases.munge import KEY
from slurmfab.phases.slurm_conf import CONFIGURATION
from slurmfab.situation import Situation
from slurmfab.slurm.render import fill

UNIT = "slurmfab-backup"
PROGRAM = "/usr/local/lib/slurmfab/backup"
SETTINGS = "/etc/slurmfab-backup.json"
UNITS = tuple(f"/etc/systemd/system/{UNIT}.{kind}" for kind in ("service", "timer"))

MODULES = tuple(
    f"agent.{name}"
    for name in (
        "backup_archive", "backup_database", "backup_pieces", "backup_state", "differences", "reading", "reasons",
        "record", "replace", "resource", "timed_backup",
    )
)  # fmt: skip
"""Of the agent's modules, those that a backup takes."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """All that it takes; on hosts that make none any more, nothing of it but the backups that are there."""
    backup = situation.cluster.backup
    if backup is None or host not in situation.cluster.backup_hosts:
        return gone(situation, host)
    context = {"directory": backup.directory, "calendar": backup.calendar, "program": PROGRAM, "settings": SETTINGS}
    return (
        Directory(backup.directory, mode=0o700),
        Program(PROGRAM, programs.files("agent.timed_backup", MODULES)),
        File(SETTINGS, settings(situation, backup, host)),
        *(File(path, fill(path.rpartition("/")[2], context)) for path in UNITS),
        Timer(UNIT),
    )


def gone(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The timer's end, where there is one; its own file goes last, since that tells that there is more."""
    if f"{UNIT}.timer" not in situation.facts[host].services:
        return ()
    service, timer = UNITS
    return (
        Service(f"{UNIT}.timer", running=False),
        Program(PROGRAM, ()),
        *(Absent(path) for path in (SETTINGS, service, timer)),
    )


def settings(situation: Situation, backup: Backup, host: str) -> str:
    """What the program is told: which parts this host has."""
    cluster = situation.cluster
    database = cluster.database if host in cluster.database_hosts else None
    wanted = {
        "cluster": cluster.name,
        "directory": backup.directory,
        "keep": backup.keep,
        "files": CONFIGURATION,
        **({"state": cluster.state_directory, "key": KEY} if host == cluster.controller else {}),
        **({"database": database.name} if database else {}),
        **({"login": SLURMDBD_CONF} if database and database.external else {}),
    }
    return json.dumps(wanted, indent=1, sort_keys=True) + "\n"
