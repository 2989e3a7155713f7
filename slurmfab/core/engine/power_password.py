"""The password of IPMI controllers: read from a file here, and sent over SSH to the controllers of the cluster."""

from __future__ import annotations

from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.power import Power
from slurmfab.core.engine import password_file

KEY = "power.how.ipmi.password_file"

LONGEST = 20
"""The most bytes of a password of IPMI 2.0; ipmitool refuses longer ones."""


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
    text = password_file.read(path, KEY, f"{power.how.ipmi.user} at the IPMI controllers")
    if len(text.encode()) > LONGEST or not text.isprintable():
        raise InputError(
            f"{KEY}: {path} must hold one line with a password of 1 to {LONGEST} bytes, which is what IPMI knows. "
            "Nothing was changed."
        )
    return text
