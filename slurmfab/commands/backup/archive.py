"""A verified backup on the deployer: its path, its manifest and its parts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import AfterValidator

from slurmfab.base import archive, atomic_file, foreign
from slurmfab.base.answers import Count, Phrase, Text
from slurmfab.base.archive import MAX_WHOLE_SIZE, Contents, Kind, Manifest, Part, format_size
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.signatures import Seal
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.backups import check_recipient
from slurmfab.hosts.known_hosts import fingerprint
from slurmfab.on_hosts.agent.backup.archive import (
    CLUSTER_FILE,
    DATABASE,
    DATABASE_FILES,
    FILES,
    KEY,
    LOCK,
    STATE,
    SUFFIX,
    UNFINISHED,
    unpacked_most,
)
from slurmfab.on_hosts.agent.backup.encryption import SUFFIX as ENCRYPTED
from slurmfab.on_hosts.agent.backup.restored_state import members

PART_TITLES = {
    CLUSTER_FILE: "cluster file",
    LOCK: "lock",
    KEY: "munge key",
    FILES: "/etc/slurm",
    DATABASE_FILES: "/etc/slurm of the slurmdbd host",
    STATE: "slurmctld's state",
    DATABASE: "accounting database",
}
"""The parts that a backup can have, with their names in messages."""

SMALL_PART, LARGE_PART = 256 << 20, 64 << 30
"""Bytes of the largest /etc/slurm and of the largest state or database in a backup, as stored."""

MOST_BYTES = {
    CLUSTER_FILE: loading.MOST_BYTES,
    LOCK: MAX_WHOLE_SIZE,
    KEY: 64 << 10,
    FILES: SMALL_PART,
    DATABASE_FILES: SMALL_PART,
    STATE: LARGE_PART,
    DATABASE: LARGE_PART,
}
"""The size of the largest part by its name; a munge key has 1 KiB at most."""


@dataclass(frozen=True, kw_only=True)
class BackupManifest(Manifest):
    """The manifest of a backup; see `Backup`."""

    cluster: Phrase
    slurm: Phrase
    next_job_id: Count
    jobs: tuple[Count, ...] | None
    left_out: Mapping[Phrase, Text]
    encrypted_to: tuple[Annotated[str, AfterValidator(check_recipient)], ...] = ()


def is_part(name: str) -> bool:
    """Whether a backup may hold a part of this name, encrypted or not."""
    return name.removesuffix(ENCRYPTED) in PART_TITLES


def most_bytes(name: str) -> int:
    """The size of the largest part of a name."""
    return MOST_BYTES[name.removesuffix(ENCRYPTED)]


KIND = Kind("backup", BackupManifest, "take another backup", is_part, most_bytes)

OWNER_ONLY = 0o700


@dataclass(frozen=True)
class Backup:
    """A verified backup."""

    path: Path
    digest: str  # of its manifest, which tells this backup from others
    cluster: str
    slurm: str  # the upstream version of Slurm that wrote the state and the database, such as `24.11.5`
    made: str  # when it was made, in ISO 8601
    by: str  # who made it, as `USER@HOST`
    next_job_id: int = 0  # the id of the next job according to the saved state; 0 if there was no job yet
    # ids of the jobs that had not ended; `None` if slurmctld did not run, so that they are not known
    jobs: frozenset[int] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)  # by name
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons why parts are missing, by name of the part
    seal: Seal = field(default_factory=Seal, repr=False)  # its manifest with its signature
    encrypted_to: tuple[str, ...] = ()  # public keys of age that the parts are encrypted to; empty if they can be read

    def read(self, name: str) -> bytes:
        """A small part as a whole. Raises InputError if the part is too large."""
        return self.parts[name].read()


def directory(cluster_file: Path) -> Path:
    """The directory of a cluster's backups: `cluster.backups/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.backups")


def make_directory(cluster_file: Path) -> Path:
    """Make the directory for a cluster's backups, which only its owner can read; InputError if it cannot be made."""
    path = directory(cluster_file)
    with atomic_file.refusing(path), atomic_file.opened_own(path, cluster_file, OWNER_ONLY) as folder:
        if folder.status.st_uid == os.geteuid():
            folder.set_access(mode=OWNER_ONLY)
        if why := foreign.why_foreign(path, foreign.sharing(cluster_file), os.fstat(folder.descriptor)):
            raise BrokenFile(path, why)
    return path


def verified(path: Path) -> Backup:
    """Read and compare a backup, and refuse files that unpack elsewhere; InputError as of `archive.verified`."""
    try:
        return archive.verified(path, KIND, backup_from)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def backup_from(contents: Contents[BackupManifest], file: BinaryIO) -> Backup:
    """A backup from the contents of its archive.

    Raises:
        InputError: some parts are encrypted, and others are not.
        ResourceFailed: a compressed tar in it holds something that is not restored, such as a symbolic link.
    """
    manifest = contents.manifest
    if {name.endswith(ENCRYPTED) for name in contents.parts} - {bool(manifest.encrypted_to)}:
        raise KIND.damaged(contents.path, "only a part of it is encrypted")
    for name in (FILES, DATABASE_FILES, STATE):
        if name in contents.parts:
            file.seek(contents.parts[name].offset)
            for _ in members(file, unpacked_most(contents.parts[name].size)):
                pass
    return Backup(
        contents.path,
        contents.digest,
        cluster=manifest.cluster,
        slurm=manifest.slurm,
        made=contents.made,
        by=manifest.by,
        next_job_id=manifest.next_job_id,
        jobs=None if manifest.jobs is None else frozenset(manifest.jobs),
        parts={name.removesuffix(ENCRYPTED): part for name, part in contents.parts.items()},
        left_out=manifest.left_out,
        seal=contents.seal,
        encrypted_to=manifest.encrypted_to,
    )


def short(recipient: str) -> str:
    """A public key of age in a few words: an SSH key by its fingerprint, as ssh-add(1) lists it."""
    kind, _, key = recipient.partition(" ")
    return f"{kind} {fingerprint(key)}" if key else recipient


def joined(backup: Backup, other: Backup) -> Backup:
    """A backup with the accounting database of another one: hosts with timers each back up only what they have.

    `backup`: the backup with slurmctld's state. `other`: the backup with the accounting database. Raises InputError if
    they are of different clusters or versions of Slurm, or `other` has no accounting database.
    """
    if DATABASE not in other.parts:
        raise InputError(f"{other.path} holds no accounting database. Nothing was changed.")
    for noun, one, two in (
        ("clusters", backup.cluster, other.cluster),
        ("versions of Slurm", backup.slurm, other.slurm),
    ):
        if one != two:
            raise InputError(
                f"{backup.path} and {other.path} are of different {noun}: {one} and {two}. Nothing was changed."
            )
    added = {name: part for name, part in other.parts.items() if name in (DATABASE, DATABASE_FILES)}
    digest = hashlib.sha256(f"{backup.digest}{other.digest}".encode()).hexdigest()
    return replace(backup, digest=digest, parts={**backup.parts, **added}, left_out={})


def description(backup: Backup) -> str:
    """A few lines about a backup: when and by whom it was made, which parts it has, and which are missing."""
    names = [f"{PART_TITLES[name]} ({format_size(part.size)})" for name, part in backup.parts.items()]
    unended = "" if backup.jobs is None else f", {len(backup.jobs)} not ended"
    jobs = f"the last job is {backup.next_job_id - 1}{unended}" if backup.next_job_id else "no jobs yet"
    return "\n".join((
        f"{backup.path}: {backup.cluster}, {backup.made}, by {backup.by}, {format_size(backup.path.stat().st_size)}",
        f"  Slurm {backup.slurm}; {jobs}",
        f"  in it: {', '.join(names)}",
        *([f"  encrypted to {', '.join(map(short, backup.encrypted_to))}"] if backup.encrypted_to else []),
        *(f"  not in it: {PART_TITLES.get(name, name)}: {reason}" for name, reason in backup.left_out.items()),
    ))  # fmt: skip


def all_in(place: Path) -> tuple[Path, ...]:
    """The archives in a directory, oldest first, without incomplete ones."""
    if not place.is_dir():
        return ()
    return tuple(sorted(path for path in place.glob(f"*{SUFFIX}") if not path.name.startswith(UNFINISHED)))
