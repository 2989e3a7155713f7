"""The secrets on this machine that the cluster file names: they are known so that they can be taken out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.cluster.inventory import file_contents
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import passwords

LEAST = 4  # characters of the shortest line of a file that counts as secret

MOST_KEY_BYTES = 1 << 16

_BODY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----([^-]*)-----END")


class Known(NamedTuple):
    """Secrets of this machine."""

    values: tuple[bytes, ...]
    unread: dict[str, str]  # what could not be read, and so was not looked for, by its key in the cluster file


def read(known: Inventory) -> Known:
    """Read the passwords, keys and private files that a cluster file names."""
    cluster, beside = known.cluster, known.path.parent
    sources: dict[str, Callable[[], Iterator[str]]] = {
        "mail.password_file": lambda: iter([passwords.mail_password(cluster.mail, beside)]),
        "power.how.ipmi.password_file": lambda: iter([passwords.power_password(cluster.power, beside)]),
        "database.password_file": lambda: iter([passwords.database_password(cluster.database)]),
        "directory.sssd.password_file": lambda: iter([passwords.directory_password(cluster.directory, beside)]),
        "registry.password_file": lambda: hashes(passwords.registry_users(cluster.registry, beside)),
        "files": lambda: private_lines(cluster, beside),
        "ssh.key": lambda: own_key(cluster),
    }
    values: dict[str, bool] = {}
    unread: dict[str, str] = {}
    for key, source in sources.items():
        try:
            values.update(dict.fromkeys(source(), True))
        except InputError as error:
            unread[key] = str(error)
    return Known(tuple(value.encode(errors="surrogateescape") for value in values if value), unread)


def hashes(text: str) -> Iterator[str]:
    """Yield the hashes in the lines of an htpasswd file."""
    for line in text.splitlines():
        yield line.partition(":")[2]


def private_lines(cluster: Cluster, beside: Path) -> Iterator[str]:
    """Yield lines, and their values, of the site's files that not everybody may read; InputError if unreadable."""
    for content in file_contents.read(cluster, beside):
        if not cluster.files[content.path].is_secret:
            continue
        for line in map(str.strip, content.text.splitlines()):
            value = re.split(r"[=:\s]", line)[-1].strip("\"'")
            yield from (one for one in (line, value) if len(one) >= LEAST and not line.startswith("#"))


def own_key(cluster: Cluster) -> Iterator[str]:
    """Yield the body of the private key by which slurmfab logs in, where the cluster file names it."""
    if not cluster.ssh.key:
        return
    try:
        text = bounded_file.read(Path(cluster.ssh.key).expanduser(), MOST_KEY_BYTES).decode(errors="replace")
    except (OSError, BrokenFile) as error:
        raise InputError(f"{cluster.ssh.key} cannot be read: {error}.") from None
    yield from ("".join(body.split()) for body in _BODY.findall(text))
