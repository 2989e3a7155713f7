"""Who vouches for a host's SSH key: the cluster's lock, then the user's and the system's known_hosts."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path

import paramiko

from slurmfab.errors import HostKeyChanged, HostKeyUnknown

SSH_PORT = 22
LEAST_FIELDS = 3
"""What a known_hosts line has at least: names, type and key (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

KNOWN_HOSTS = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))

RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
SIGNATURES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", *RSA_SIGNATURES)
"""What paramiko 5 accepts of a host, best first; a test holds it against the library."""


class PinnedKey(paramiko.MissingHostKeyPolicy):
    """What paramiko asks before it logs in: is this the key that is pinned for this host?

    Fabric accepts any key by default, and paramiko's own table of known hosts takes quadratic time to load; so
    every connection gets one of these, and paramiko is given no table at all.

    Args:
        host: the host's name, for messages.
        pinned: its known public keys, base64 by type; empty when nobody has vouched for it.
        accept_new: whether a host without any pinned key is believed.
    """

    def __init__(self, host: str, pinned: Mapping[str, str], *, accept_new: bool = False) -> None:
        self.host = host
        self.pinned = pinned
        self.accept_new = accept_new
        self.shown: tuple[str, str] | None = None

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Accept the key by returning, or refuse it.

        Raises:
            HostKeyUnknown: no key of this host is known.
            HostKeyChanged: another one is pinned.
        """
        kind, value = key.get_name(), key.get_base64()
        known = self.pinned.get(kind)
        if known is None and not (self.accept_new and not self.pinned):
            raise HostKeyUnknown(self.host, kind, value, fingerprint(value))
        if known is not None and known != value:
            raise HostKeyChanged(
                self.host,
                f"it shows another SSH host key ({fingerprint(value)}) than the pinned one ({fingerprint(known)}). "
                "If it was reinstalled, remove its host_keys from the cluster's lock file; otherwise somebody may be "
                "in between.",
            )
        self.shown = (kind, value)


def refused_types(pinned: Mapping[str, str]) -> list[str]:
    """The signature algorithms to switch off, so that a host shows a key of a type that is pinned for it."""
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


def known_keys(names: Iterable[str], files: Iterable[Path] = KNOWN_HOSTS) -> dict[str, str]:
    """The public keys that known_hosts files hold for any of these names, base64 by type.

    Args:
        names: as known_hosts spells them: `n1`, `10.0.0.1`, `[n1]:2222`.
        files: sshd(8)-style known_hosts files; missing and unreadable ones count as empty, damaged lines are passed
            over, and marked lines (`@cert-authority`, `@revoked`) and patterns are not understood.
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
    """Whether a base64 text is a public key of this type, which its first bytes repeat (RFC 4253, section 6.6)."""
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
    """How known_hosts spells an address with this port."""
    return address if port == SSH_PORT else f"[{address}]:{port}"
