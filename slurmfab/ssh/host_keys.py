"""Known SSH host keys: those in the cluster's lock, then those in the user's and the system's known_hosts."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import paramiko

from slurmfab.errors import HostKeyChanged, HostKeyUnknown

SSH_PORT = 22
LEAST_FIELDS = 3
"""The least number of fields in a known_hosts line: names, type, key (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

KNOWN_HOSTS = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))

RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
SIGNATURES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", *RSA_SIGNATURES)
"""The host key algorithms that paramiko 5 accepts, best first; a test compares them with the library."""


class HostKey(NamedTuple):
    """A public SSH host key.

    Args:
        kind: its type, such as `ssh-ed25519`.
        base64: the key, as known_hosts has it.
    """

    kind: str
    base64: str


class PinnedKey(paramiko.MissingHostKeyPolicy):
    """The check of a host key that paramiko calls before a login.

    Fabric accepts any key by default, and paramiko's own table of known hosts takes quadratic time to load; so
    every connection gets one of these, and paramiko is given no table at all.

    Args:
        host: the host's name, for messages.
        pinned: its known public keys, base64 by type; empty if none is known.
        accept_new: whether any key is accepted from a host without known keys.
    """

    def __init__(self, host: str, pinned: Mapping[str, str], *, accept_new: bool = False) -> None:
        self.host = host
        self.pinned = pinned
        self.accept_new = accept_new
        self.shown: HostKey | None = None

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Accept the key by returning, or refuse it; `shown` holds it in both cases.

        Raises:
            HostKeyUnknown: no key of this host is known.
            HostKeyChanged: another key of this type is pinned.
        """
        kind, value = self.shown = HostKey(key.get_name(), key.get_base64())
        known = self.pinned.get(kind)
        if known is None and not (self.accept_new and not self.pinned):
            raise HostKeyUnknown(self.host, kind, value, fingerprint(value))
        if known is not None and known != value:
            raise HostKeyChanged(
                self.host,
                f"its SSH host key ({fingerprint(value)}) differs from the pinned one ({fingerprint(known)}). "
                "If the host was reinstalled, remove its host_keys from the cluster's lock file; otherwise another "
                "machine may be intercepting the connection.",
            )


def refused_types(pinned: Mapping[str, str]) -> list[str]:
    """The host key algorithms to disable, so that the host shows a key of a pinned type."""
    if not pinned:
        return []
    wanted = set(pinned) | (set(RSA_SIGNATURES) if "ssh-rsa" in pinned else set())
    return [name for name in SIGNATURES if name not in wanted]


def fingerprint(key: str) -> str:
    """A public key's fingerprint as OpenSSH prints it.

    >>> fingerprint("AAAA")
    'SHA256:cJZ8HkiWMGZ5LSu8Vn9ZqhLzBuvNVqPwO4tZ8gQ4L8Q'
    """
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def changed_key_text(host: str, pinned: Mapping[str, str], shown: HostKey) -> str:
    """The lines that tell of a host whose SSH host key is not a pinned one, with the fingerprints of all.

    Args:
        host: the host's name.
        pinned: its known public keys, base64 by type.
        shown: the key that it shows now.
    """
    before = ", ".join(f"{kind} {fingerprint(key)}" for kind, key in sorted(pinned.items())) or "unknown"
    return (
        f"{host}: it shows another SSH host key than before.\n  before: {before}\n"
        f"  now:    {shown.kind} {fingerprint(shown.base64)}"
    )


def known_keys(names: Iterable[str], files: Iterable[Path] = KNOWN_HOSTS) -> dict[str, str]:
    """The public keys that known_hosts files hold for any of these names, base64 by type.

    Args:
        names: in the form of known_hosts: `n1`, `10.0.0.1`, `[n1]:2222`.
        files: known_hosts files (sshd(8)). Unreadable files count as empty. Damaged lines, marked lines
            (`@cert-authority`, `@revoked`) and patterns are ignored.
    """
    wanted = tuple(names)
    keys: dict[str, str] = {}
    for path in files:
        try:
            lines = path.expanduser().read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if (
                len(fields) >= LEAST_FIELDS
                and not line.startswith(("#", "@"))
                and is_about(fields[0], wanted)
                and is_key(*fields[1:3])
            ):
                keys.setdefault(fields[1], fields[2])
    return keys


def is_key(kind: str, key: str) -> bool:
    """Whether a base64 text is a public key of a type, which its first bytes name (RFC 4253, section 6.6)."""
    try:
        blob = base64.b64decode(key, validate=True)
    except ValueError:
        return False
    return blob[4:].startswith(kind.encode()) and int.from_bytes(blob[:4], "big") == len(kind)


def is_about(field: str, names: tuple[str, ...]) -> bool:
    """Whether the first field of a known_hosts line, plain or hashed, names one of these hosts."""
    if field.startswith("|1|"):
        return any(matches_hash(field, name) for name in names)
    return not set(field.split(",")).isdisjoint(names)


def matches_hash(field: str, name: str) -> bool:
    """Whether a hashed known_hosts field (`|1|salt|hash`, HMAC-SHA1) is this name's."""
    parts = field.split("|")
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (IndexError, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def spelled(address: str, port: int) -> str:
    """An address and port in the form of known_hosts: `n1`, or `[n1]:2222`."""
    return address if port == SSH_PORT else f"[{address}]:{port}"
