"""The password of an external accounting database: read from a file here, and sent over SSH to slurmdbd's host."""

from __future__ import annotations

import re
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.accounting import Database
from slurmfab.core.engine import password_file

_WRITABLE = re.compile(r"[!$-&(-+\--\[\]-~]+")
"""Characters that a value in slurmdbd.conf can have without quotes: ASCII without blank, quotes, `#`, `,` and `\\`."""


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
    text = password_file.read(path, "database.password_file", f"{database.user} at {database.external}").strip()
    if not _WRITABLE.fullmatch(text):
        raise InputError(
            f"database.password_file: the password in {path} has more than one word, or has one of \" ' # , \\ or a "
            "character that is not ASCII in it, which slurmdbd.conf cannot hold. Set another one."
        )
    return text
