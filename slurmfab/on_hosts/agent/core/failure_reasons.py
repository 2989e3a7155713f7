"""The reason of a failure, as text for the operator."""

from __future__ import annotations

HINTS = {
    1: "is it immutable (lsattr), or is the agent not root?",
    2: "a file or directory that it needs is missing",
    16: "it is a mount point; a bind-mounted file cannot be replaced",
    28: "free some space on it",
    30: "the file system is mounted read-only; see dmesg",
    122: "the disk quota is exceeded",
}
"""Advice by error number (errno(3) on Linux)."""


def reason(error: Exception) -> str:
    """The text of an error; for an `OSError` with the file, and with advice for common file system errors."""
    if isinstance(error, OSError) and error.strerror:
        hint = HINTS.get(error.errno or 0)
        where = " (%s)" % error.filename if error.filename else ""
        return "%s%s%s" % (error.strerror, where, "; " + hint if hint else "")
    return str(error)
