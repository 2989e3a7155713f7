"""A backup that lies here: where, what its manifest says, and whether it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from slurmfab.agent.backup_archive import (
    CLUSTER_FILE,
    DATABASE,
    DATABASE_FILES,
    FILES,
    KEY,
    LOCK,
    MANIFEST,
    NEW,
    STATE,
    SUFFIX,
)
from slurmfab.agent.resource import ResourceFailed
from slurmfab.agent.restored_state import members
from slurmfab.backup.parts import (
    SMALL,
    UNREADABLE,
    Part,
    altered,
    manifest_of,
    parts_of,
    refuse_newer,
    without_manifest,
)
from slurmfab.errors import InputError

PARTS = (CLUSTER_FILE, LOCK, KEY, FILES, DATABASE_FILES, STATE, DATABASE)
"""All that there can be in a backup."""

WORDS = {
    CLUSTER_FILE: "cluster file",
    LOCK: "lock",
    KEY: "munge key",
    FILES: "/etc/slurm",
    DATABASE_FILES: "/etc/slurm of slurmdbd's host",
    STATE: "slurmctld's state",
    DATABASE: "accounting database",
}
"""The parts as people call them."""

OWNER_ONLY = 0o700


@dataclass(frozen=True)
class Backup:
    """A backup that is whole.

    Args:
        path: the archive.
        digest: of its manifest, which tells it from others.
        cluster: ClusterName.
        slurm: the upstream version of Slurm that wrote the state and the database, such as `24.11.5`.
        made: when, in ISO 8601.
        by: who, from where.
        next_job_id: the number that the next job gets by its state; 0 before the first one.
        jobs: numbers of the jobs that had not ended; `None` where no slurmctld told.
        parts: by name.
        left_out: why parts are missing, by name.
    """

    path: Path
    digest: str
    cluster: str
    slurm: str
    made: str
    by: str
    next_job_id: int = 0
    jobs: frozenset[int] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str) -> bytes:
        """A small part as a whole.

        Raises:
            InputError: it is not small.
        """
        part = self.parts[name]
        if part.size > SMALL:
            raise InputError(f"{part.path}: {name} has {part.size} bytes, which is too much to be one.")
        with part.path.open("rb") as file:
            file.seek(part.at)
            return file.read(part.size)


def directory(cluster_file: Path) -> Path:
    """Where the backups of a cluster lie: `cluster.backups/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.backups")


def make_directory(cluster_file: Path) -> Path:
    """Make the directory for a cluster's backups, which nobody but its owner may look into.

    Raises:
        InputError: it cannot be made.
    """
    path = directory(cluster_file)
    try:
        path.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        path.chmod(OWNER_ONLY)
    except OSError as error:
        raise InputError(f"{path} cannot be made: {error.strerror}.") from error
    return path


def verified(path: Path) -> Backup:
    """A backup, once every byte of it was compared with its manifest, and nothing in it would lead elsewhere.

    Raises:
        InputError: it is damaged, is no backup, or was made by a newer slurmfab.
    """
    try:
        with path.open("rb") as file:
            return _verified(path, file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UNREADABLE as error:
        raise damaged(path, f"it is no backup of slurmfab's, or was cut off ({error})") from error
    except ResourceFailed as error:
        raise damaged(path, str(error)) from error


def _verified(path: Path, file: BinaryIO) -> Backup:
    """The backup in an open file; any error that reading can raise means that it is damaged."""
    found = parts_of(path, file, PARTS.__contains__, damaged)
    plain = manifest_of(path, file, found, damaged)
    refuse_newer(path, plain)
    wrong = altered(plain, found)
    if wrong:
        raise damaged(path, f"{', '.join(wrong)}: not as the manifest says")
    for name in (FILES, DATABASE_FILES, STATE):
        if name in found:
            refuse_foreign(file, found[name])
    return backup_from(path, plain, without_manifest(found), found[MANIFEST].sha256)


def refuse_foreign(file: BinaryIO, part: Part) -> None:
    """Go through a compressed tar within an archive.

    Raises:
        ResourceFailed: something in it would lead elsewhere, or is no regular file.
    """
    file.seek(part.at)
    for _ in members(file):
        pass


def backup_from(path: Path, plain: Mapping[str, Any], parts: Mapping[str, Part], digest: str) -> Backup:
    """A backup from its manifest's JSON values."""
    return Backup(
        path,
        digest,
        cluster=str(plain["cluster"]),
        slurm=str(plain["slurm"]),
        made=datetime.fromisoformat(plain["made"]).isoformat(sep=" ", timespec="seconds"),
        by=str(plain["by"]),
        next_job_id=int(plain["next_job_id"]),
        jobs=None if plain["jobs"] is None else frozenset(map(int, plain["jobs"])),
        parts=parts,
        left_out={str(name): str(why) for name, why in plain["left_out"].items()},
    )


def joined(backup: Backup, other: Backup) -> Backup:
    """A backup with the accounting database of another one, as hosts make them that have not both by themselves.

    Raises:
        InputError: they do not belong together.
    """
    if DATABASE not in other.parts:
        raise InputError(f"{other.path} holds no accounting database. Nothing was changed.")
    for what, one, two in (
        ("clusters", backup.cluster, other.cluster),
        ("versions of Slurm", backup.slurm, other.slurm),
    ):
        if one != two:
            raise InputError(
                f"{backup.path} and {other.path} are of other {what}: {one} and {two}. Nothing was changed."
            )
    added = {name: part for name, part in other.parts.items() if name in (DATABASE, DATABASE_FILES)}
    digest = hashlib.sha256(f"{backup.digest}{other.digest}".encode()).hexdigest()
    return replace(backup, digest=digest, parts={**backup.parts, **added}, left_out={})


def damaged(path: Path, reason: str) -> InputError:
    """The error for an archive that is not as it was written."""
    return InputError(f"{path}: {reason}. Nothing was changed; take another backup.")


def described(backup: Backup) -> str:
    """What a backup holds, in a few lines."""
    names = [f"{WORDS[name]} ({size_words(part.size)})" for name, part in backup.parts.items()]
    unended = "" if backup.jobs is None else f", {len(backup.jobs)} not ended"
    jobs = f"{backup.next_job_id - 1} is the last job{unended}" if backup.next_job_id else "no jobs yet"
    return "\n".join((
        f"{backup.path}: {backup.cluster}, {backup.made}, by {backup.by}, {size_words(backup.path.stat().st_size)}",
        f"  Slurm {backup.slurm}; {jobs}",
        f"  in it: {', '.join(names)}",
        *(f"  not in it: {WORDS.get(name, name)}: {why}" for name, why in backup.left_out.items()),
    ))  # fmt: skip


def size_words(size: float) -> str:
    """A number of bytes for people.

    >>> size_words(70_000)
    '68 KiB'
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004 - the next unit
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def all_in(place: Path) -> tuple[Path, ...]:
    """The archives in a directory, oldest first; those that were never finished are none."""
    if not place.is_dir():
        return ()
    return tuple(sorted(path for path in place.glob(f"*{SUFFIX}") if not path.name.startswith(NEW)))
