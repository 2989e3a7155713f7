"""Check public SSH keys in a cluster file: sshd must be able to read them, and they must not be private keys."""

from __future__ import annotations

import base64
import binascii
import re

_TYPES = re.compile(
    r"(?:^|(?<=\s))(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com"
    r"|sk-ecdsa-sha2-nistp256@openssh\.com)\s+(\S+)"
)
"""The key types that sshd(8) accepts in authorized_keys; options may precede them."""

_OLD = "ssh-dss"
_LENGTH = 4


def mistake(line: str) -> str:
    """Why a line, with its options and comment, is no public key for authorized_keys (sshd(8)); empty if it is."""
    if "PRIVATE KEY" in line:
        return "this is a private key, which must stay with its owner; the public key is in the .pub file"
    if "SSH2 PUBLIC KEY" in line:
        return "this key is in the format of RFC 4716; convert it: ssh-keygen -i -f FILE"
    if not line.isprintable():
        return "a key is one line without control characters"
    if line.split()[:1] == [_OLD]:
        return "this is a DSA key, which sshd no longer accepts; make another: ssh-keygen -t ed25519"
    found = _TYPES.search(line)
    if not found:
        return "this is not a public SSH key such as: ssh-ed25519 AAAAC3NzaC1… ann@laptop"
    return damage(*found.groups())


def damage(kind: str, key: str) -> str:
    """The mistake in a key; empty for none. `kind`: such as `ssh-ed25519`. `key`: in base64."""
    try:
        data = base64.b64decode(key, validate=True)
    except (ValueError, binascii.Error):
        return f"the text after {kind} is not base64; is a part of the key missing?"
    fields, end = _fields(data)
    if fields[:1] != [kind.encode()] or len(fields) < 2 or end != len(data):  # noqa: PLR2004 - the type, and the key
        return f"the text after {kind} is not a key of this type; is a part of it missing?"
    return ""


def _fields(data: bytes) -> tuple[list[bytes], int]:
    """The fields of a key, the first of which is its type (RFC 4253, section 6.6), and where the last one would end.

    Each says its length (RFC 4251, section 5).
    """
    fields, at = list[bytes](), 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        fields.append(data[start:at])
    return fields, at


def kind_of(line: str) -> tuple[str, int]:
    """The type of a right key, and the number of its bits if it is an RSA key, otherwise 0."""
    kind, key = key_of(line).split()
    modulus = _fields(base64.b64decode(key))[0][2] if kind == "ssh-rsa" else b""  # behind the type and the exponent
    return kind, int.from_bytes(modulus, "big").bit_length()


def key_of(line: str) -> str:
    """The type and base64 text of a key, without options and comment, to compare keys."""
    found = _TYPES.search(line)
    return " ".join(found.groups()) if found else line.strip()


def in_text(text: str) -> tuple[str, ...]:
    """The lines of a file with public keys, without comments and empty lines."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
