"""The record of an upgrade that is under way, in the lock, so that every command knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.lock import UpgradeUnderWay
from slurmfab.commands.backup import archive
from slurmfab.commands.upgrade.plan import UpgradePlan
from slurmfab.core.engine.actor import who
from slurmfab.core.engine.run import Run


def begin(run: Run, plan: UpgradePlan, version: str) -> None:
    """Note in the lock that an upgrade to this version begins, or goes on."""
    known = run.inventory.lock.upgrade
    if known and known.to == version:
        return
    by, _, since = who().partition(" since ")
    had = run.inventory.lock.slurm or str(plan.have)
    record = UpgradeUnderWay(had, version, since, by, packages=packages(plan))
    put(run, record)


def packages(plan: UpgradePlan) -> Mapping[str, Mapping[str, str]]:
    """The versions of Slurm's packages before: by name, by the hosts that have the same."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for host, versions in plan.hosts.items():
        if versions.installed:
            alike.setdefault(tuple(sorted(versions.installed.items())), []).append(host)
    return {fold(hosts): dict(pairs) for pairs, hosts in alike.items()}


def put(run: Run, record: UpgradeUnderWay | None) -> None:
    """Save the lock with another record, or without one."""
    run.update_lock(replace(run.inventory.lock, upgrade=record))
    run.save_lock()


def note_backup(run: Run, path: Path) -> None:
    """Note the proved backup."""
    record = run.inventory.lock.upgrade
    assert record is not None, "the upgrade has begun"
    put(run, replace(record, backup=path.name))


def backup_of(run: Run) -> Path | None:
    """The proved backup of the upgrade that is under way, if its file is there."""
    record = run.inventory.lock.upgrade
    if record is None or not record.backup or "/" in record.backup:
        return None
    path = archive.directory(run.inventory.path) / record.backup
    return path if path.is_file() else None
