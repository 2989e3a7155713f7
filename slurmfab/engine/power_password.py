"""The password of IPMI controllers: read from a file here, and sent over SSH to the controllers of the cluster."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slurmfab.errors import InputError
from slurmfab.inventory.power import Power

KEY = "power.how.ipmi.password_file"

LONGEST = 20
"""The most bytes of a password of IPMI 2.0; ipmitool refuses longer ones."""

_MOST_BYTES = 4096


def read(power: Power | None, beside: Path) -> str:
    """Read the password from the cluster file's `password_file`.

    Args:
        power: the cluster file's `power` section; `None` where there is none.
        beside: directory of the cluster file, where a relative path starts.

    Returns:
        The password; empty where nodes are not switched by IPMI.

    Raises:
        InputError: the file is missing, empty or readable by others, or no IPMI controller has such a password.
    """
    if power is None or power.how.ipmi is None:
        return ""
    path = beside / Path(power.how.ipmi.password_file).expanduser()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InputError(
                    f"{KEY}: {path} has mode {mode:04o}, so other users can read or change the password in it. "
                    f"To correct that: chmod 600 {path}. Nothing was changed."
                )
            text = file.read(_MOST_BYTES).decode(errors="replace").rstrip("\r\n")
    except OSError as error:
        raise InputError(
            f"{KEY}: {path} cannot be read: {error.strerror}. It must hold the password of {power.how.ipmi.user} at "
            "the IPMI controllers, on one line. Nothing was changed."
        ) from None
    if not text or len(text.encode()) > LONGEST or not text.isprintable():
        raise InputError(
            f"{KEY}: {path} must hold one line with a password of 1 to {LONGEST} bytes, which is what IPMI knows. "
            "Nothing was changed."
        )
    return text
