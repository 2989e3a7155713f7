"""The secrets on this host, so that the deployer can take them out of everything that leaves it: it keeps none of them.

They go over SSH into the deployer's memory, as the munge key does in each run. What is looked for are the values: the
same password may be in a log of another host.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from typing import Dict, Iterator, List, Sequence, Tuple

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.host_paths import MUNGE_KEY, REGISTRY, SLURM_DIRECTORY
from slurmfab.on_hosts.agent.core.reading import entries, read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context

MOST_BYTES = 1 << 16  # the size of the largest file that is a secret as a whole; munge's keys have 1 KiB at most
MOST_VALUES = 1000  # the most values that a host tells
MOST_FORMER = 400  # how many files that earlier runs have replaced are read, the newest ones
LEAST = 3  # characters of the shortest value: replacing a shorter one would leave nothing readable

WHOLE = (MUNGE_KEY + "*", SLURM_DIRECTORY + "/*.key", SLURM_DIRECTORY + "/*.jwks", "/etc/slurmfab-power.password")
"""Patterns of files that are secrets as a whole, keys of munge and of Slurm's tokens (JWT) among them."""

PRIVATE_KEYS = (
    "/etc/ssh/ssh_host_*_key",
    "/etc/ssl/private/*",
    REGISTRY + "/*.pem",
    "/etc/slurmfab-jupyter/*.pem",
    SLURM_DIRECTORY + "/*.pem",
    "/root/.ssh/id_*",
)
"""Patterns of files with private keys as text (PEM)."""

SETTINGS = (
    SLURM_DIRECTORY + "/*.conf",
    "/run/slurm/conf/*.conf",
    "/etc/slurmfab-mail.conf",
    "/etc/msmtprc",
    "/root/.my.cnf",
    "/etc/mysql/debian.cnf",
    "/etc/docker/registry/*",
    "/etc/sssd/sssd.conf",
)
"""Patterns of files in which some settings are secrets."""

KEPT = "/var/lib/slurmfab/kept"
"""What the host keeps of files before they were changed, see `slurmfab.on_hosts.agent.undo.undo_store`."""

MOUNTS = ("/etc/fstab", "/etc/systemd/system/*.mount")
KEY_PATHS = r"(?i)\b(?:jwt_key|jwks|secretfile|credentials|cred)=([^\s,\"]+)"
STATE_KEY = r"(?im)^[ \t]*StateSaveLocation[ \t]*=[ \t]*\"?([^\s\"#]+)"
SETTING = (
    r"(?im)^[ \t]*[\w.-]{0,64}(?:pass|passwd|password|secret|token|authtok)"
    r"[ \t]*[=: \t][ \t]*(?:\"([^\"\n]*)\"|([^\s\"#]+))"
)
"""A key that ends so, and its value; msmtp's settings have white space between the two."""

NO_SECRETS = ("(null)", "null", "none", "true", "false", "yes", "off", "auto")  # values of such keys that are none
HASH = r"(?m)^[^:\s]+:(\$[^:\s]+)"  # a user and the hash of a password, as htpasswd(1) writes them

KEY_BODY = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----([^-]*)-----END"


def values(context: Context, private: Sequence[str] = ()) -> Iterator[bytes]:
    """Yield this host's secrets, each once and up to a number, and the lines of these private site files."""
    seen: Dict[bytes, bool] = {}
    for value in secrets_in_files(context, private):
        for one in (value[:MOST_BYTES], value[:MOST_BYTES].strip()):
            if len(one) >= LEAST and one not in seen and len(seen) < MOST_VALUES:
                seen[one] = True
                yield one


def secrets_in_files(context: Context, private: Sequence[str]) -> Iterator[bytes]:
    """Yield the secrets in the files that may have some; some of them twice."""
    texts = [read_text(path) for path in files(context, SETTINGS)]
    named = [path for text in texts for path in re.findall(KEY_PATHS, text)]
    states = [path for text in texts for path in re.findall(STATE_KEY, text)]
    for path in files(context, (*WHOLE, *named, *(one + "/jwt*" for one in states))):
        yield content(path)
    for path in files(context, (*PRIVATE_KEYS, *(home + "/.ssh/id_*" for home in homes(context)))):
        yield from key_bodies(content(path))
    for text in texts:
        yield from settings_in(context, text)
    mounts = [read_text(path) for path in files(context, MOUNTS)]
    credentials = [path for text in mounts for path in re.findall(KEY_PATHS, text)]
    for path in files(context, credentials):
        yield from settings_in(context, content(path).decode(errors="replace"))
    for path in former(context):
        whole = content(path)
        yield from (whole, *key_bodies(whole), *settings_in(context, whole.decode(errors="replace")))
    for path in files(context, (*private, *credentials)):
        yield from lines_of(read_bytes(path))


def former(context: Context) -> Iterator[str]:
    """Yield the copies of secret files that earlier runs have replaced, which the host keeps to undo that."""
    lines = (line for path in reversed(files(context, (KEPT + "/*/manifest",))) for line in manifest(path))
    yield from itertools.islice(lines, MOST_FORMER)


def manifest(path: str) -> Iterator[str]:
    """Yield the copies of secret files of one run."""
    for line in read_bytes(path).split(b"\n"):
        entry = json_objects.parse(line) or {}
        if entry.get("secret") is True and entry.get("blob"):
            yield os.path.join(os.path.dirname(path), os.path.basename(str(entry["blob"])))


def homes(context: Context) -> List[str]:
    """The homes of the slurm user and of root, who have keys without a password."""
    known = [fields for fields in entries(context.path("/etc/passwd")) if fields[0] in ("slurm", "root")]
    return [fields[5] for fields in known if len(fields) > 5 and fields[5].startswith("/")]  # noqa: PLR2004 - passwd(5)


def files(context: Context, patterns: Sequence[str]) -> List[str]:
    """The files that match, below the root of the context."""
    return sorted({path for one in patterns if one.startswith("/") for path in glob.glob(context.path(one))})


def content(path: str) -> bytes:
    """The content of a file; empty for a large one, which is no file of secrets, and for one that cannot be read."""
    try:
        return read_bytes(path) if os.path.getsize(path) <= MOST_BYTES else b""
    except OSError:
        return b""


def settings_in(context: Context, text: str) -> Iterator[bytes]:
    """Yield the passwords among settings, and the hashes of passwords."""
    for quoted, plain in re.findall(SETTING, text):
        value = quoted or plain
        # AccountingStoragePass may be the path of munge's socket.
        is_path = value.startswith("/") and os.path.lexists(context.path(value))
        if not is_path and value.lower() not in NO_SECRETS:
            yield value.encode()
    for value in re.findall(HASH, text):
        yield value.encode()


def key_bodies(text: bytes) -> Iterator[bytes]:
    """Yield the bodies of private keys, without line breaks."""
    for body in re.findall(KEY_BODY, text.decode(errors="replace")):
        yield "".join(body.split()).encode()


def lines_of(text: bytes) -> Iterator[bytes]:
    """Yield the lines of a secret file of the site's own, but for comments."""
    for line in text.split(b"\n"):
        if not line.lstrip().startswith((b"#", b";")):
            yield line.strip()


def public_keys(context: Context) -> Tuple[str, ...]:
    """The public halves of the SSH keys, which private ones repeat and which are no secrets."""
    patterns = tuple(one + ".pub" for one in PRIVATE_KEYS) + tuple(home + "/.ssh/*.pub" for home in homes(context))
    return tuple(read_text(path)[:16384] for path in files(context, patterns))[:64]
