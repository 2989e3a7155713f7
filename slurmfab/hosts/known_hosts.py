"""known_hosts files and files of revoked host keys, read as ssh(1) reads them.

The format is in sshd(8), SSH_KNOWN_HOSTS FILE FORMAT: plain and hashed names, patterns with `*`, `?` and `!`, and the
markers @revoked and @cert-authority. Host certificates cannot be verified here, because paramiko negotiates none; a
line with @cert-authority therefore makes no key known.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile
from slurmfab.base.own_directory import own_directory

SSH_PORT = 22
LARGEST_LIST = 64 << 20  # the most bytes of a file of revoked keys
LEAST_FIELDS = 3  # the least number of fields in a line, without its marker: names, type, key

USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
"""The files that ssh(1) reads by default (ssh_config(5), UserKnownHostsFile and GlobalKnownHostsFile)."""

AUTHORITY, REVOKED = "@cert-authority", "@revoked"
_MARKERS = ("", AUTHORITY, REVOKED)
_SPECIAL = re.compile(r"[|*?!]")
_KRL = b"SSHKRL\n\0"  # the first bytes of a key revocation list (ssh-keygen(1), KEY REVOCATION LISTS)


class HostKey(NamedTuple):
    """A public SSH host key."""

    kind: str  # its type, such as `ssh-ed25519`
    base64: str  # the key, as known_hosts has it


class Entry(NamedTuple):
    """A line of a known_hosts file."""

    marker: str  # `@revoked`, `@cert-authority` or nothing
    names: str  # its first field: names and patterns, or one hashed name
    key: HostKey
    path: Path


class Entries(NamedTuple):
    """Lines of a known_hosts file with the same marker, those with plain names by each of these."""

    by_name: Mapping[str, tuple[Entry, ...]]  # entries without patterns, by name in lower case
    others: tuple[Entry, ...]  # entries with patterns or a hashed name, which have to be compared one by one

    def about(self, names: tuple[str, ...]) -> Iterator[Entry]:
        """Yield the entries for any of these names."""
        for name in names:
            yield from self.by_name.get(name, ())
        yield from (entry for entry in self.others if is_about(entry.names, names))


NO_ENTRIES = Entries({}, ())


@dataclass(frozen=True)
class KnownHost:
    """What the files of a user say about the keys of one host."""

    names: tuple[str, ...]  # the host's names in the form of known_hosts: `n1`, `10.0.0.1`, `[n1]:2222`
    # known_hosts files; `~` is the home directory, and unreadable files count as empty
    files: tuple[str, ...] = (*USER_FILES, *GLOBAL_FILES)
    revoked_files: tuple[str, ...] = ()  # files of revoked keys: public keys, one per line, or a key revocation list

    def keys(self) -> dict[str, tuple[str, ...]]:
        """Known keys, base64 by type, without revoked ones; as in ssh(1), a port is first part of the name."""
        for names in (self._names, self._plain_names):
            found: dict[str, list[str]] = {}
            for entry in self._entries(names):
                if not self.revoked_in(entry.key):
                    found.setdefault(entry.key.kind, []).append(entry.key.base64)
            if found:
                return {kind: tuple(dict.fromkeys(keys)) for kind, keys in found.items()}
        return {}

    def revoked_in(self, key: HostKey) -> str:
        """The file that revokes a key of this host; an unreadable one revokes all (ssh_config(5))."""
        for entry in self._entries((*self._names, *self._plain_names), REVOKED):
            if entry.key == key:
                return str(entry.path)
        return next((file for file in self.revoked_files if is_revoked(at_home(file), key)), "")

    def has_authority(self) -> bool:
        """Whether a certificate authority is known for the host."""
        return any(self._entries((*self._names, *self._plain_names), AUTHORITY))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name.lower() for name in self.names))

    @property
    def _plain_names(self) -> tuple[str, ...]:
        """The names without ports."""
        return tuple(dict.fromkeys(name[1:].rpartition("]:")[0] if name[:1] == "[" else name for name in self._names))

    def _entries(self, names: tuple[str, ...], marker: str = "") -> Iterator[Entry]:
        """Yield the lines of all files with a marker about any of these names, those of the first file first."""
        for file in self.files:
            yield from entries_of(at_home(file)).get(marker, NO_ENTRIES).about(names)


def at_home(file: str) -> Path:
    """The path of a file that may begin with `~`."""
    return _at_home(file, os.environ.get("HOME"))


@lru_cache(maxsize=64)
def _at_home(file: str, _home: str | None) -> Path:
    return Path(file).expanduser()


def entries_of(path: Path) -> Mapping[str, Entries]:
    """The lines of a known_hosts file by their markers; none if it cannot be read.

    The file is parsed again only when it has changed. Few lines have a marker, and only they are compared with the name
    of a host that the lock knows: with hashed names that is slow for many hosts.
    """
    try:
        status = path.stat()
        return _entries_of(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return {}


@lru_cache(maxsize=16)
def _entries_of(path: Path, _time: int, _size: int) -> Mapping[str, Entries]:
    """The lines of a known_hosts file by their markers. Raises OSError if it cannot be read."""
    found: dict[str, list[Entry]] = {}
    for line in path.read_text(errors="replace").splitlines():
        entry = entry_from(line, path)
        if entry:
            found.setdefault(entry.marker, []).append(entry)
    return {marker: indexed(entries) for marker, entries in found.items()}


def indexed(entries: Iterable[Entry]) -> Entries:
    """Entries, so that those of a name are found at once."""
    by_name: dict[str, list[Entry]] = {}
    others = []
    for entry in entries:
        if _SPECIAL.search(entry.names):
            others.append(entry)
        else:
            for name in entry.names.lower().split(","):
                by_name.setdefault(name, []).append(entry)
    return Entries({name: tuple(about) for name, about in by_name.items()}, tuple(others))


def entry_from(line: str, path: Path) -> Entry | None:
    """The entry of a line; `None` for a comment, a damaged line and an unknown marker, which ssh(1) ignores."""
    fields = line.split()
    marker = fields.pop(0) if line.lstrip().startswith("@") else ""
    if len(fields) < LEAST_FIELDS or fields[0].startswith("#") or marker not in _MARKERS or not is_key(*fields[1:3]):
        return None
    return Entry(marker, fields[0], HostKey(fields[1], fields[2]), path)


def is_key(kind: str, key: str) -> bool:
    """Whether a base64 text is a public key of a type, which its first bytes name (RFC 4253, section 6.6)."""
    try:
        blob = base64.b64decode(key, validate=True)
    except ValueError:
        return False
    return blob[4:].startswith(kind.encode()) and int.from_bytes(blob[:4], "big") == len(kind)


def is_about(field: str, names: Iterable[str]) -> bool:
    """Whether a line's first field matches one name, in lower case, and no pattern after `!`."""
    if field.startswith("|"):
        return any(matches_hash(field, name) for name in names)
    patterns = field.lower().split(",")
    refused = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    known = tuple(names)
    return not any(matches(one, name) for one in refused for name in known) and any(
        matches(one, name) for one in wanted for name in known
    )


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern with `*` and `?` matches a name (ssh_config(5), PATTERNS); brackets have no meaning in it."""
    expression = "".join(
        {"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in re.sub(r"\*+", "*", pattern)
    )
    return bool(re.fullmatch(expression, name))


def matches_hash(field: str, name: str) -> bool:
    """Whether a hashed field (`|1|salt|hash`, HMAC-SHA1) is this name's."""
    parts = field.split("|")
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (IndexError, ValueError):
        return False
    return parts[1] == "1" and hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def is_revoked(path: Path, key: HostKey) -> bool:
    """Whether a file of revoked keys (lines, or a list for ssh-keygen(1)) has a key, or cannot be read."""
    try:
        data = bounded_file.read(path, LARGEST_LIST)
    except (OSError, BrokenFile):
        return True
    if not data.startswith(_KRL):
        lines = (line.split() for line in data.decode(errors="replace").splitlines())
        return any(line[:2] == list(key) for line in lines)
    with own_directory("key") as folder:
        file = folder / "key.pub"
        file.write_text(" ".join(key) + "\n")
        argv = ["ssh-keygen", "-Q", "-f", str(path), str(file)]
        try:
            return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0
        except OSError:
            return True


def fingerprint(key: str) -> str:
    """A public key's fingerprint as OpenSSH prints it.

    >>> fingerprint("AAAA")
    'SHA256:cJZ8HkiWMGZ5LSu8Vn9ZqhLzBuvNVqPwO4tZ8gQ4L8Q'
    """
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def spelled(address: str, port: int) -> str:
    """An address and port in the form of known_hosts: `n1`, or `[n1]:2222`."""
    return address if port == SSH_PORT else f"[{address}]:{port}"
