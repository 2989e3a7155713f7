"""The newest backup of a cluster, and of it what its twin gets: slurmctld's state and the database, without secrets."""

from __future__ import annotations

from pathlib import Path

from slurmfab.base.archive import Part
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.commands.backup import archive
from slurmfab.commands.backup.archive import Backup
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.archive import Archive

TAKEN = (parts.STATE, parts.DATABASE)
"""Parts of a backup that the twin gets; keys and passwords are new there."""

PIECE_BYTES = 1 << 20


def newest(cluster_file: Path) -> tuple[Backup | None, str]:
    """The newest backup beside the cluster file, or why it is not used, for people."""
    found = archive.all_in(archive.directory(cluster_file))
    if not found:
        return None, ""
    try:
        backup = archive.verified(found[-1])
    except SlurmfabError as error:
        return None, f"The newest backup is not used: {error}"
    if backup.encrypted_to:
        return None, f"The newest backup, {backup.path.name}, is encrypted, so the twin has no jobs and no history."
    if parts.STATE not in backup.parts:
        return None, f"The newest backup, {backup.path.name}, has no state of slurmctld, so the twin has no jobs."
    return backup, ""


def without_secrets(backup: Backup, directory: Path) -> Path:
    """Write an archive into a directory of the twin's with the state and the database of a backup; its path.

    Raises InputError if it cannot be written.
    """
    try:
        made = Archive(str(directory), f"state-of-{backup.cluster}")
        try:
            for name in TAKEN:
                if name in backup.parts:
                    add(made, name, backup.parts[name])
            return Path(made.finish(manifest(backup)))
        finally:
            made.abandon()
    except OSError as error:
        raise InputError(f"The state of the backup cannot be written: {error.strerror}.") from error


def add(made: Archive, name: str, part: Part) -> None:
    """Add a part of a backup to the archive."""
    made.begin()
    for piece in part.pieces(PIECE_BYTES, "Rehearse again."):
        made.write(piece.data)
    made.end(name)


def manifest(backup: Backup) -> dict[str, object]:
    """The values of the archive's manifest besides its list of parts."""
    jobs = None if backup.jobs is None else sorted(backup.jobs)
    return {
        "cluster": backup.cluster, "made": backup.made, "by": backup.by, "slurm": backup.slurm,
        "next_job_id": backup.next_job_id, "jobs": jobs, "left_out": dict(backup.left_out),
    }  # fmt: skip
