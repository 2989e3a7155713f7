"""The password of the relay of mail about jobs: read from a file here, and sent over SSH to the controllers."""

from __future__ import annotations

import re
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.mail import Mail
from slurmfab.core.engine import password_file

_WRITABLE = re.compile(r"[!-~]([ -~]{0,398}[!-~])?")
"""What a line of msmtp's settings can hold; its lines have 500 characters at most."""


def read(mail: Mail | None, beside: Path) -> str:
    """Read the password from the cluster file's `mail.password_file`.

    Args:
        mail: the cluster file's `mail` section; `None` where there is none.

    Returns:
        The password; empty without `password_file`.

    Raises:
        InputError: the file is missing, empty or readable by others, or msmtp's settings cannot hold the password.
    """
    if mail is None or mail.password_file is None:
        return ""
    path = beside / Path(mail.password_file).expanduser()
    text = password_file.read(path, "mail.password_file", f"{mail.user} at {mail.relay}").strip()
    if not _WRITABLE.fullmatch(text):
        raise InputError(
            f"mail.password_file: the password in {path} has more than one line, more than 400 characters, or a "
            "character that is not ASCII, which the settings of msmtp cannot hold. Set another one."
        )
    return text
