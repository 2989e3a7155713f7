"""Lines without the secrets that they may hold; they are taken out before anything leaves the host."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
SHAPES = (
    (re.compile(r"MUNGE:[A-Za-z0-9+/=]+:?"), "MUNGE:" + HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), HIDDEN),
    (
        re.compile(
            r"(?i)(?<![\w-])([\w-]*(?:passw(?:or)?d|storagepass|secret|token|jwt|api_?key|credential_?key|private_?key)[\w-]*"
            r"[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)"
        ),
        r"\1" + HIDDEN,
    ),
    (re.compile(r"(?i)(\bauthorization:?\s*(?:bearer|basic)?\s+)\S+"), r"\1" + HIDDEN),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+@"), r"\1" + HIDDEN + "@"),
    (re.compile(r"(?i)(identified\s+(?:with\s+\S+\s+)?(?:by|as)\s+)(\"[^\"]*\"|'[^']*'|\S+)"), r"\1" + HIDDEN),
)
"""What secrets look like: munge credentials, JSON web tokens, `password=...`, passwords in URLs and in SQL."""


def without_secrets(text: str) -> str:
    """A line with `(hidden)` in the place of what looks like a secret."""
    for shape, instead in SHAPES:
        text = shape.sub(instead, text)
    return text
