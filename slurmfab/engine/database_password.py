"""The password of an external accounting database: read from a file here, and sent over SSH to slurmdbd's host."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from slurmfab.errors import InputError
from slurmfab.inventory.accounting import Database

_WRITABLE = re.compile(r"[!$-&(-+\--\[\]-~]+")
"""Characters that a value in slurmdbd.conf can have without quotes: ASCII without blank, quotes, `#`, `,` and `\\`."""

_LONGEST = 4096


def read(database: Database | None) -> str:
    """Read the password from the cluster file's `password_file`.

    Args:
        database: the cluster file's `database` section; `None` where there is none.

    Returns:
        The password; empty without `password_file`.

    Raises:
        InputError: the file is missing, empty or readable by others, or slurmdbd.conf cannot hold the password.
    """
    if database is None or database.password_file is None:
        return ""
    path = Path(database.password_file).expanduser()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InputError(
                    f"database.password_file: {path} has mode {mode:04o}, so other users can read or change "
                    f"the password in it. To correct that: chmod 600 {path}. Nothing was changed."
                )
            text = file.read(_LONGEST).decode(errors="replace").strip()
    except OSError as error:
        raise InputError(
            f"database.password_file: {path} cannot be read: {error.strerror}. It must hold the password of "
            f"{database.user} at {database.external}, on one line. Nothing was changed."
        ) from None
    if not text:
        raise InputError(f"database.password_file: {path} is empty. It must hold the password, on one line.")
    if not _WRITABLE.fullmatch(text):
        raise InputError(
            f"database.password_file: the password in {path} has more than one word, or has one of \" ' # , \\ or a "
            "character that is not ASCII in it, which slurmdbd.conf cannot hold. Set another one."
        )
    return text
