"""Encrypted backups on the deployer: read with an identity, into a file that has no name."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.base.own_directory import own_directory
from slurmfab.commands.backup import archive
from slurmfab.commands.backup.archive import Backup, short
from slurmfab.on_hosts.agent.backup.archive import PIECE, Archive
from slurmfab.on_hosts.agent.backup.encryption import decrypting
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

_OF_ENCRYPTED = ("encrypted_to", "format", "parts")  # what the manifest of the decrypted archive does not take over


def decrypted(backup: Backup, identity: str, stack: ExitStack) -> Backup:
    """A backup whose parts can be read; itself if it is not encrypted.

    The decrypted archive is verified like any other. It is a file in the directory for temporary files ($TMPDIR), which
    loses its name as soon as it is whole: the end of this process, however it comes, frees it. `identity`: path of a
    file with an identity of age, or of an SSH private key. Raises InputError if there is no identity, it is not one of
    the recipients', or the backup is damaged.
    """
    if not backup.encrypted_to:
        return backup
    whom = ", ".join(map(short, backup.encrypted_to))
    if not identity:
        raise InputError(
            f"{backup.path} is encrypted to {whom}. Name the file with the private key of one of these: "
            "--identity FILE."
        )
    if not Path(identity).expanduser().is_file():
        raise InputError(f"--identity {identity}: there is no such file. Nothing was changed.")
    try:
        with own_directory("decrypted") as folder:
            path = _decrypted_into(str(folder), backup, str(Path(identity).expanduser()))
            file = stack.enter_context(path.open("rb"))
            plain = archive.verified(path)
    except ResourceFailed as error:
        raise InputError(_reason(str(error), backup, identity, whom)) from error
    except OSError as error:
        raise InputError(
            f"{backup.path} cannot be decrypted into {tempfile.gettempdir()}: {error.strerror}. Nothing was changed. "
            "Another directory: TMPDIR."
        ) from error
    place = Path(f"/dev/fd/{file.fileno()}")
    parts = {name: replace(part, path=place) for name, part in plain.parts.items()}
    return replace(backup, parts=parts, encrypted_to=())


def _decrypted_into(folder: str, backup: Backup, identity: str) -> Path:
    """The path of an archive in a directory, with the decrypted parts of a backup."""
    made = Archive(folder, "decrypted")
    try:
        for name, part in backup.parts.items():
            made.begin(decrypting(identity))
            for piece in part.pieces(PIECE, "Nothing was changed."):
                made.write(piece.data)
            made.end(name)
        about = json.loads(backup.seal.data)
        return Path(made.finish({key: about[key] for key in about if key not in _OF_ENCRYPTED}))
    finally:
        made.abandon()


def _reason(said: str, backup: Backup, identity: str, whom: str) -> str:
    """Why age did not decrypt a backup, in plain words. `said`: by age. `identity`: the file that was named."""
    if "no identity matched" in said:
        return (
            f"{backup.path} is encrypted to {whom}, and {identity} holds the private key of none of these. Nothing was "
            "changed."
        )
    return f"{backup.path} cannot be decrypted with {identity}: {said}. Nothing was changed."
