"""Passwords in files of the deployer's, which only their owner can read; they are sent over SSH to the hosts.

A password is read from where the cluster file says, and is empty where that names no file. An InputError says that the
file is missing, empty or readable by others, or that what takes the password cannot hold it.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.accounting import Database
from slurmfab.cluster.inventory.mail import Mail
from slurmfab.cluster.inventory.power import Power

LONGEST = 4096
LONGEST_OF_IPMI = 20
"""The most bytes of a password of IPMI 2.0; ipmitool refuses longer ones."""

_IN_MSMTP = re.compile(r"[!-~]([ -~]{0,398}[!-~])?")
"""What a line of msmtp's settings can hold; its lines have 500 characters at most."""

_IN_SLURMDBD_CONF = re.compile(r"[!$-&(-+\--\[\]-~]+")
"""Characters that a value in slurmdbd.conf can have without quotes: ASCII without blank, quotes, `#`, `,` and `\\`."""


def of_mail(mail: Mail | None, beside: Path) -> str:
    """The password of the relay of mail about jobs, by `mail.password_file`."""
    if mail is None or mail.password_file is None:
        return ""
    path = beside / Path(mail.password_file).expanduser()
    text = read(path, "mail.password_file", f"{mail.user} at {mail.relay}").strip()
    if not _IN_MSMTP.fullmatch(text):
        raise InputError(
            f"mail.password_file: the password in {path} has more than one line, more than 400 characters, or a "
            "character that is not ASCII, which the settings of msmtp cannot hold. Set another one."
        )
    return text


def of_power(power: Power | None, beside: Path) -> str:
    """The password of the IPMI controllers of nodes, by `power.how.ipmi.password_file`."""
    if power is None or power.how.ipmi is None:
        return ""
    key, path = "power.how.ipmi.password_file", beside / Path(power.how.ipmi.password_file).expanduser()
    text = read(path, key, f"{power.how.ipmi.user} at the IPMI controllers")
    if len(text.encode()) > LONGEST_OF_IPMI or not text.isprintable():
        raise InputError(
            f"{key}: {path} must hold one line with a password of 1 to {LONGEST_OF_IPMI} bytes, which is what IPMI "
            "knows. Nothing was changed."
        )
    return text


def of_database(database: Database | None) -> str:
    """The password of an external accounting database, by `database.password_file`."""
    if database is None or database.password_file is None:
        return ""
    path = Path(database.password_file).expanduser()
    text = read(path, "database.password_file", f"{database.user} at {database.external}").strip()
    if not _IN_SLURMDBD_CONF.fullmatch(text):
        raise InputError(
            f"database.password_file: the password in {path} has more than one word, or has one of \" ' # , \\ or a "
            "character that is not ASCII in it, which slurmdbd.conf cannot hold. Set another one."
        )
    return text


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
