"""The newest backup of a cluster, and of it what its twin gets: slurmctld's state and the database.

Keys are new ones, the scripts of its jobs end at once, and triggers are left out: nothing of it runs on a twin.
"""

from __future__ import annotations

import io
import re
import secrets
import struct
import tarfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from slurmfab.base import signatures
from slurmfab.base.archive import Part
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.commands.backup import archive, decryption, trust
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.rehearse import programs
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.archive import Archive
from slurmfab.on_hosts.agent.logs.secret_detectors import SLURM_PASSWORD

TAKEN = (parts.STATE, parts.DATABASE)
"""Parts of a backup that the twin gets; keys and passwords are new there."""

PIECE_BYTES = 1 << 20

OF_NODES = ("node_state", "node_state.old", "clustername")
"""Files of slurmctld's state about nodes: those of a twin have booted later, which slurmctld takes for a crash. With a
`clustername`, which it makes anew, slurmctld would not start without them."""

TRIGGERS = ("trigger_state", "trigger_state.old")
"""Files of slurmctld's state with the programs that it runs as the slurm user when something happens (strigger(1))."""

OF_SLURMCTLD = re.compile(
    r"(?:\w*_state\w*|\w+_usage|last_\w+|dbd\.messages|priority_last_decay_ran|heartbeat)(?:\.old)?"
)
"""The names of slurmctld's files in its state; all others may be secrets, such as a key for tokens."""

OF_JOB = re.compile(r"(?:.*/)?job\.\d+/(\w+)")  # files of a job in slurmctld's state
ENVIRONMENT = struct.pack("=I", 1) + b"PATH=/usr/bin:/bin\0"  # how many variables, and these, as slurmctld reads them
INSTEAD = b"#!/bin/sh\n# Of a rehearsal, which runs no job of the cluster.\n\0"  # slurmctld writes a zero at its end


def newest(cluster_file: Path, identity: str, stack: ExitStack) -> tuple[Backup | None, str]:
    """The newest backup beside the cluster file, or why it is not used, for people.

    `identity`: as of `decryption.decrypted`; empty for none. `stack`: as there. Raises InputError if the backup is
    encrypted, and the identity does not decrypt it.
    """
    found = archive.all_in(archive.directory(cluster_file))
    if not found:
        return None, ""
    try:
        backup = archive.verified(found[-1])
    except SlurmfabError as error:
        return None, f"The newest backup is not used: {error}"
    name = backup.path.name
    if parts.STATE not in backup.parts:
        return None, f"The newest backup, {name}, has no state of slurmctld, so the twin has no jobs."
    if backup.encrypted_to and not identity:
        return None, f"The newest backup, {name}, is encrypted, so the twin has no jobs: see --identity."
    if backup.encrypted_to and (reason := distrust(backup, cluster_file)):
        return None, f"The newest backup is not used: {name}: {reason}. It was not decrypted."
    return decryption.decrypted(backup, identity, stack), ""


def to_restore(words: Sequence[str], cluster_file: Path, identity: str, stack: ExitStack) -> Backup | None:
    """The backup that a command restores; `None` for another command, and for an archive that is not trusted.

    `words`: its command line, the archive first. `identity`, `stack`: as of `newest`. Raises InputError if the archive
    is no whole backup, or is encrypted, and the identity does not decrypt it.
    """
    if words[0] != "restore":
        return None
    backup = archive.verified(Path(words[1]))
    signed_by = dict(pairwise(words)).get("--signed-by", "")
    if "--trust-archive" not in words and distrust(backup, cluster_file, signed_by):
        return None
    return decryption.decrypted(backup, identity, stack)


def distrust(backup: Backup, cluster_file: Path, signed_by: str = "") -> str:
    """Why a backup is not trusted; empty if it is. `signed_by`: a file with further trusted keys."""
    return signatures.distrust(backup.seal, archive.KIND.name, trust.trusted_keys(cluster_file, signed_by))


def words_for_twin(words: Sequence[str], backup: Backup | None, directory: Path) -> tuple[str, ...]:
    """The command line for the twin: a backup is restored from a copy in a directory, whose jobs end at once."""
    if backup is None:
        return tuple(words)
    others = [word for before, word in pairwise(words[1:]) if "--identity" not in (before, word)]
    trusted = () if "--trust-archive" in others else ("--trust-archive",)
    return ("restore", str(copied(backup, directory, tuple(backup.parts))), *others, *trusted)


def copied(backup: Backup, directory: Path, taken: Collection[str] = TAKEN) -> Path:
    """Write some parts of a backup as an archive, whose jobs end at once, into a directory of the twin's; its path.

    Raises InputError if it cannot be written.
    """
    try:
        made = Archive(str(directory), f"copy-of-{backup.path.stem}")
        try:
            for name, part in backup.parts.items():
                if name in taken:
                    made.begin()
                    if name == parts.KEY:
                        made.write(secrets.token_bytes(part.size))
                    elif name.endswith(".tar.gz"):
                        add_files(made, part, is_state=name == parts.STATE)
                    else:
                        add(made, part)
                    made.end(name)
            return Path(made.finish(manifest(backup)))
        finally:
            made.abandon()
    except OSError as error:
        raise InputError(f"The state of the backup cannot be written: {error.strerror}.") from error


def add(made: Archive, part: Part) -> None:
    """Write a part of a backup into an archive."""
    for piece in part.pieces(PIECE_BYTES, "Rehearse again."):
        made.write(piece.data)


def add_files(made: Archive, part: Part, *, is_state: bool) -> None:
    """Write slurmctld's state, or files of Slurm's, into an archive: without nodes and triggers, and with other keys.

    Each job has a script that ends at once, and no variables of its user.
    """

    class Sink(io.RawIOBase):
        """The archive as a file."""

        def write(self, data: bytes) -> int:  # type: ignore[override]
            """Append bytes to the present part."""
            made.write(bytes(data))
            return len(data)

    with (
        part.opened() as file,
        tarfile.open(fileobj=file, mode="r|gz", tarinfo=parts.BoundedHeader) as known,
        tarfile.open(fileobj=Sink(), mode="w|gz") as left,
    ):
        for member in known:
            if Path(member.name).name in (*OF_NODES, *TRIGGERS):
                continue
            content = known.extractfile(member)
            if content:
                name = member.name.removeprefix("./")
                new = of_state(name, member.size) if is_state else of_files(name, member.mode, content.read())
                if new is not None:
                    member.size, content = len(new), io.BytesIO(new)
            left.addfile(member, content)


def of_state(name: str, size: int) -> bytes | None:
    """What a twin has as a file of slurmctld's state; `None` for the same as the cluster, which has no secrets."""
    if job := OF_JOB.fullmatch(name):
        return {"script": INSTEAD, "environment": ENVIRONMENT}.get(job[1], b"")
    return None if OF_SLURMCTLD.fullmatch(name) else secrets.token_bytes(size)


def of_files(name: str, mode: int, content: bytes) -> bytes:
    """What a twin has as a file of Slurm's: configuration with other passwords, programs that do nothing, or noise."""
    if name.endswith((".conf", ".yaml")):
        text = content.decode("utf-8", "surrogateescape")
        return SLURM_PASSWORD.sub(other_password, text).encode("utf-8", "surrogateescape")
    if name.endswith(".lua"):
        return programs.LUA.encode()
    is_program = mode & 0o111 or content.startswith(b"#!")
    return programs.STAND_IN.encode() if is_program else secrets.token_bytes(len(content))


def other_password(found: re.Match[str]) -> str:
    """The setting of a password with another value, as long; a path stays, as that of munge's socket."""
    key, between, value = found.groups()
    return f"{key}{between}{value if value.startswith('/') else secrets.token_hex(len(value))[: len(value)]}"


def manifest(backup: Backup) -> dict[str, object]:
    """The values of the archive's manifest besides its list of parts."""
    jobs = None if backup.jobs is None else sorted(backup.jobs)
    return {
        "cluster": backup.cluster, "made": backup.made, "by": backup.by, "slurm": backup.slurm,
        "next_job_id": backup.next_job_id, "jobs": jobs, "left_out": dict(backup.left_out),
    }  # fmt: skip
