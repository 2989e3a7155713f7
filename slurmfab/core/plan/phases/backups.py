"""Scheduled backups on the primary controller and slurmdbd's host: a program, a systemd timer and a directory."""

from __future__ import annotations

import json

from slurmfab.base.paths import (
    BACKUP_PROGRAM,
    BACKUP_SETTINGS,
    BACKUP_UNIT,
    MUNGE_KEY,
    SLURM_DIRECTORY,
    SLURMDBD_CONF,
    UNIT_FILES,
)
from slurmfab.cluster.inventory.backups import Backup
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import AGE
from slurmfab.core.plan.directories import backup_directory
from slurmfab.core.plan.phases.capability import program_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

UNITS = tuple(f"{UNIT_FILES}/{BACKUP_UNIT}.{kind}" for kind in ("service", "timer"))


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The backup program with its timer; on hosts without scheduled backups, their removal. Backups stay."""
    backup = plan_input.cluster.backup
    if backup is None or host not in plan_input.cluster.backup_hosts:
        return gone(plan_input, host)
    context = {
        "directory": backup.directory,
        "calendar": backup.calendar,
        "program": BACKUP_PROGRAM,
        "settings": BACKUP_SETTINGS,
    }
    return (
        backup_directory(backup.directory),
        Program(BACKUP_PROGRAM, program_files("agent.backup.timed_backup")),
        File(BACKUP_SETTINGS, settings(plan_input, backup, host)),
        *(File(path, fill(path.rpartition("/")[2], context)) for path in UNITS),
        Timer(BACKUP_UNIT),
    )


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """What encrypts backups, where the cluster file wants that."""
    backup = plan_input.cluster.backup
    return (AGE,) if backup and backup.encrypt_to and host in plan_input.cluster.backup_hosts else ()


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of program and timer, whose file goes last: so the next run completes an interrupted one."""
    if f"{BACKUP_UNIT}.timer" not in plan_input.facts[host].services:
        return ()
    service, timer = UNITS
    return (
        Service(f"{BACKUP_UNIT}.timer", running=False),
        Program(BACKUP_PROGRAM, ()),
        *(Absent(path) for path in (BACKUP_SETTINGS, service, timer)),
    )


def settings(plan_input: PlanInput, backup: Backup, host: str) -> str:
    """The backup program's settings as JSON: the controller saves state and key, slurmdbd's host the database."""
    cluster = plan_input.cluster
    database = cluster.database if host in cluster.database_hosts else None
    wanted = {
        "cluster": cluster.name,
        "directory": backup.directory,
        "keep": backup.keep,
        **({"encrypt_to": list(backup.encrypt_to)} if backup.encrypt_to else {}),
        "files": SLURM_DIRECTORY,
        **({"state": cluster.state_directory, "key": MUNGE_KEY} if host == cluster.controller else {}),
        **({"database": database.name} if database else {}),
        **({"login": SLURMDBD_CONF} if database and database.external else {}),
    }
    return json.dumps(wanted, indent=1, sort_keys=True) + "\n"
