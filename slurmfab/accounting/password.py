"""The password of a database that is somebody else's: read here, sent over SSH, and written nowhere but there."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from slurmfab.clusterfile.accounting import Database
from slurmfab.errors import InputError

_WRITABLE = re.compile(r"[!$-&(-+\--\[\]-~]+")
"""What slurmdbd.conf can hold unquoted: no blank, no quotes, no comment, no comma, and no backslash."""

_LONGEST = 4096


def read(database: Database | None) -> str:
    """The password that the cluster file's `password_file` holds; empty where there is no such file.

    Args:
        database: the cluster file's section.

    Raises:
        InputError: the file is missing, empty, or open to others than its owner, or Slurm cannot write its password.
    """
    if database is None or database.password_file is None:
        return ""
    path = Path(database.password_file).expanduser()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InputError(
                    f"database.password_file: {path} has mode {mode:04o}, so others than its owner could read or "
                    f"change the password in it. If nobody did: chmod 600 {path}. Nothing was changed."
                )
            text = file.read(_LONGEST).decode(errors="replace").strip()
    except OSError as error:
        raise InputError(
            f"database.password_file: {path} cannot be read: {error.strerror}. It holds, on one line, the password of "
            f"{database.user} at {database.external}. Nothing was changed."
        ) from None
    if not text:
        raise InputError(f"database.password_file: {path} is empty; it holds the password, on one line.")
    if not _WRITABLE.fullmatch(text):
        raise InputError(
            f"database.password_file: the password in {path} is more than one word, or has one of \" ' # , \\ or a "
            "letter outside of ASCII in it, which slurmdbd.conf cannot hold. Give the database user another one."
        )
    return text
