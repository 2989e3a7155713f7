"""A password in a file of the deployer's, which only its owner can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slurmfab.base.errors import InputError

LONGEST = 4096


def read(path: Path, key: str, whose: str, *, most: int = LONGEST, is_one: bool = True) -> str:
    """The text of a file with a password, without the end of its line.

    Args:
        whose: whose password it is, for complaints.
        most: the most bytes that are read.
        is_one: whether it is one password; otherwise `whose` says what the file has to hold.

    Raises:
        InputError: the file is missing, empty or readable by others.
    """
    wanted = f"the password of {whose}, on one line" if is_one else whose
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InputError(
                    f"{key}: {path} has mode {mode:04o}, so other users can read or change the password in it. "
                    f"To correct that: chmod 600 {path}. Nothing was changed."
                )
            text = file.read(most).decode(errors="replace").rstrip("\r\n")
    except OSError as error:
        raise InputError(
            f"{key}: {path} cannot be read: {error.strerror}. It must hold {wanted}. Nothing was changed."
        ) from None
    if not text.strip():
        raise InputError(
            f"{key}: {path} is empty. It must hold {'the password, on one line' if is_one else wanted}. "
            "Nothing was changed."
        )
    return text
