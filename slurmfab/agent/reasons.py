"""Why something failed, in words for an operator."""

from __future__ import annotations

HINTS = {
    1: "is it immutable (lsattr), or is the agent not root?",
    2: "something that has to be there before it is missing",
    16: "it is a mount point; a bind-mounted file cannot be replaced",
    28: "free some space on it",
    30: "the file system is mounted read-only; look at dmesg",
    122: "the disk quota is used up",
}
"""What to try, by errno(3) of Linux."""


def reason(error: Exception) -> str:
    """What went wrong, in words for an operator, with a hint for the file system's commonest troubles."""
    if isinstance(error, OSError) and error.strerror:
        hint = HINTS.get(error.errno or 0)
        where = " (%s)" % error.filename if error.filename else ""
        return "%s%s%s" % (error.strerror, where, "; " + hint if hint else "")
    return str(error)
