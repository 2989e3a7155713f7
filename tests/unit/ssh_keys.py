"""Public keys for tests, none of which anybody has a private half of."""

from __future__ import annotations

import base64
import hashlib


def public_key(kind: str, seed: str) -> str:
    """A text of the form of a public key (RFC 4253, section 6.6), each seed its own."""
    return base64.b64encode(
        len(kind).to_bytes(4, "big") + kind.encode() + hashlib.sha256(seed.encode()).digest()
    ).decode()


ED25519, OTHER, RSA = public_key("ssh-ed25519", "a"), public_key("ssh-ed25519", "b"), public_key("ssh-rsa", "a")
