"""Passwords in files of the deployer's, which only their owner can read; they are sent over SSH to the hosts.

A function returns an empty text where the cluster file names no such file. It raises an InputError where the file is
missing, empty or readable by others, or holds what its reader on the host cannot take.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.cluster.inventory.named_path import named

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.accounting import Database
    from slurmfab.cluster.inventory.directory import Directory
    from slurmfab.cluster.inventory.mail import Mail
    from slurmfab.cluster.inventory.power import Power
    from slurmfab.cluster.inventory.registry import Registry

_IN_SLURMDBD_CONF = re.compile(r"[!$-&(-+\--\[\]-~]+")
"""What a value in slurmdbd.conf can have without quotes: ASCII without blank, quotes, `#`, `,` and `\\`."""

_ONE_LINE = re.compile(r"[!-~]([ -~]{0,398}[!-~])?")
"""What a line of msmtp's settings can hold; its lines have 500 characters at most."""

_IPMI = "power.how.ipmi.password_file"
_LONGEST_OF_IPMI = 20  # the most bytes of a password of IPMI 2.0; ipmitool refuses longer ones

_USERS = "registry.password_file"
_LONGEST_LIST = 1 << 20
_ENTRY = re.compile(r"(?P<user>[A-Za-z0-9_][A-Za-z0-9._@+-]{0,127}):\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}")
_HIGHEST_COST = 15  # a server computes a hash for each request with a login; from here on that takes seconds

_LONGEST = 4096
_LARGEST_CA = 1 << 18  # a file with all authorities of a system has some 220 KiB


def database_password(database: Database | None, beside: Path = Path("/")) -> str:
    """The password of an external accounting database, for slurmdbd's host."""
    if database is None or database.password_file is None:
        return ""
    path = named(beside, database.password_file)
    text = read_file(path, "database.password_file", f"{database.user} at {database.external}").strip()
    if not _IN_SLURMDBD_CONF.fullmatch(text):
        raise InputError(
            f"database.password_file: the password in {path} has more than one word, or has one of \" ' # , \\ or a "
            "character that is not ASCII in it, which slurmdbd.conf cannot hold. Set another one."
        )
    return text


def mail_password(mail: Mail | None, beside: Path) -> str:
    """The password of the relay of mail about jobs, for the controllers."""
    if mail is None or mail.password_file is None:
        return ""
    path, whose = named(beside, mail.password_file), f"{mail.user} at {mail.relay}"
    return one_line(path, "mail.password_file", whose, "the settings of msmtp cannot hold")


def directory_password(directory: Directory | None, beside: Path) -> str:
    """The password of the entry as which SSSD searches a directory, for all hosts."""
    if directory is None or directory.sssd.password_file is None:
        return ""
    path, whose = named(beside, directory.sssd.password_file), str(directory.sssd.bind_dn)
    return one_line(path, "directory.sssd.password_file", whose, "slurmfab does not write to sssd.conf")


def one_line(path: Path, key: str, whose: str, why_not: str) -> str:
    """The password in a file, one line of ASCII. `why_not`: completes why others are refused, by InputError."""
    text = read_file(path, key, whose).strip()
    if not _ONE_LINE.fullmatch(text):
        raise InputError(
            f"{key}: the password in {path} has more than one line, more than 400 characters, or a character that is "
            f"not ASCII, which {why_not}. Set another one."
        )
    return text


def directory_ca(directory: Directory | None, beside: Path) -> str:
    """The certificate of the authority by which a directory's servers are known, which is no secret."""
    if directory is None:
        return ""
    import ssl  # slow to load, and few clusters have a directory

    path = named(beside, directory.sssd.ca_file)
    try:
        text = bounded_file.read(path, _LARGEST_CA).decode(errors="replace")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, BrokenFile, ValueError) as error:  # an SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else ""
        told = f"cannot be read: {why}" if why else "holds no certificate (PEM)"
        raise InputError(
            f"directory.sssd.ca_file: {path} {told}. It must hold the certificate of the authority that has "
            "signed those of the servers. Nothing was changed."
        ) from None
    return text if text.endswith("\n") else f"{text}\n"


def power_password(power: Power | None, beside: Path) -> str:
    """The password of IPMI controllers, for the controllers of the cluster."""
    if power is None or power.how.ipmi is None:
        return ""
    path = named(beside, power.how.ipmi.password_file)
    text = read_file(path, _IPMI, f"{power.how.ipmi.user} at the IPMI controllers")
    if len(text.encode()) > _LONGEST_OF_IPMI or not text.isprintable():
        raise InputError(
            f"{_IPMI}: {path} must hold one line with a password of 1 to {_LONGEST_OF_IPMI} bytes, which is what IPMI "
            "knows. Nothing was changed."
        )
    return text


def registry_users(registry: Registry | None, beside: Path) -> str:
    """The lines of the file with the registry's users and hashes of their passwords, without comments (htpasswd(1))."""
    if registry is None:
        return ""
    path = named(beside, registry.password_file)
    what = "a line USER:HASH for each user who may send images; to add one: htpasswd -B"
    text = read_file(path, _USERS, f"{what} {path} USER", most=_LONGEST_LIST, is_one=False)
    users: dict[str, int] = {}
    entries = dict(entries_of(text, path))
    for number, line in entries.items():
        user = line.partition(":")[0]
        if users.setdefault(user, number) != number:
            raise InputError(
                f"{_USERS}: {path}:{number}: {user} is already in line {users[user]}. Nothing was changed."
            )
    if not users:
        raise InputError(f"{_USERS}: {path} has no user. It must hold {what} {path} USER. Nothing was changed.")
    return "".join(f"{line}\n" for line in entries.values())


def entries_of(text: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield the entries of a file of htpasswd(1) with line numbers; InputError for one that the registry refuses."""
    for number, line in enumerate((line.strip() for line in text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        found = _ENTRY.fullmatch(line)
        if not found:
            raise InputError(
                f"{_USERS}: {path}:{number}: it is not USER:HASH with a hash of bcrypt, which is the only one that the "
                f"registry takes. To write it: htpasswd -B {path} USER. Nothing was changed."
            )
        if int(found["cost"]) > _HIGHEST_COST:
            raise InputError(
                f"{_USERS}: {path}:{number}: each request of {found['user']} would take the registry seconds, because "
                f"the cost of the hash is {found['cost']}. To write it anew: htpasswd -B -C 10 {path} {found['user']}. "
                "Nothing was changed."
            )
        yield number, line


def read_file(path: Path, key: str, whose: str, *, most: int = _LONGEST, is_one: bool = True) -> str:
    """The text of a file with a password without its line end; InputError if missing, empty or readable by others.

    `whose`: for complaints. `is_one`: whether it is one password; otherwise `whose` says what the file has to hold.
    """
    wanted = f"the password of {whose}, on one line" if is_one else whose
    try:
        with bounded_file.opened(path) as file:
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
