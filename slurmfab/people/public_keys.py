"""Public SSH keys as people hand them in: told from private ones, and from what sshd would not read."""

from __future__ import annotations

import base64
import binascii
import re

_TYPES = re.compile(
    r"(?:^|(?<=\s))(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com"
    r"|sk-ecdsa-sha2-nistp256@openssh\.com)\s+(\S+)"
)
"""The types that sshd(8) takes in authorized_keys; options may stand before them."""

_OLD = "ssh-dss"
_LENGTH = 4


def mistake(line: str) -> str:
    """Why a line is no public key as authorized_keys has them (sshd(8), AUTHORIZED_KEYS FILE FORMAT); empty if it is.

    Args:
        line: the type, the key in base64 and a comment, perhaps with options before them.
    """
    if "PRIVATE KEY" in line:
        return "this is a private key, which nobody but its owner may have; the public one is in the file with .pub"
    if "SSH2 PUBLIC KEY" in line:
        return "this is a key in the format of RFC 4716; ssh-keygen -i -f FILE makes OpenSSH's of it"
    if not line.isprintable():
        return "a key is one line without control characters"
    if line.split()[:1] == [_OLD]:
        return "a DSA key, which sshd takes no more; make another: ssh-keygen -t ed25519"
    found = _TYPES.search(line)
    if not found:
        return "this is no public SSH key, such as: ssh-ed25519 AAAAC3NzaC1… ann@laptop"
    return damage(*found.groups())


def damage(kind: str, key: str) -> str:
    """What is wrong with a key of this type, empty when nothing is.

    Args:
        kind: such as `ssh-ed25519`.
        key: in base64.
    """
    try:
        data = base64.b64decode(key, validate=True)
    except (ValueError, binascii.Error):
        return f"the text after {kind} is no base64; is a part of the key missing?"
    # The key names its own type (RFC 4253, section 6.6).
    name = kind.encode()
    if data[: _LENGTH + len(name)] != len(name).to_bytes(_LENGTH, "big") + name or len(data) <= _LENGTH + len(name):
        return f"the text after {kind} is no such key; is a part of it missing?"
    return ""


def key_of(line: str) -> str:
    """What makes a key the key that it is, whatever its options and its comment: its type and base64."""
    found = _TYPES.search(line)
    return " ".join(found.groups()) if found else line.strip()


def in_text(text: str) -> tuple[str, ...]:
    """The lines of a file of public keys that hold one, in order; comments and empty lines are none."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
