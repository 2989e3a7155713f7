"""Command lines that every login shell reads alike: sh, bash, zsh, csh, tcsh and fish.

sshd passes a command line to the login shell of the user, which is fish or tcsh for some. What such a shell's start
files print comes before the command's own output, so each command announces itself by a mark.
"""

from __future__ import annotations

import re

EXPIRED = re.compile(r"(?i:password change required|(?:password|account) (?:has|is) expired|token is no longer valid)")
"""Words of sshd and of pam_unix(8)."""

RESET = (
    "sshd there took the login and then closed the connection: its process for the login fails, as where a limit of "
    "the login user is too low (nofile, nproc, as in /etc/security/limits.conf) or memory is short. journalctl -u ssh "
    "there says more"
)
FILES = "See the login user's shell (getent passwd) and its start files, such as .bashrc"

PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)  # texts without a character that is special in a shell

SPECIAL = {"'": '''"'"''', "\\": r"\\", "!": r"\!"}
"""How a character is written that one of the shells interprets between single quotes: fish reads a backslash there,
and csh replaces `!` by an earlier command."""


DECODE = 'eval "$(printf %b "$0")"'  # runs the text that follows, in which escapes stand for line breaks


def quoted(text: str) -> str:
    r"""A text as one word for any login shell; it has no line break, which csh does not take into a word.

    >>> quoted("it's 5%!"), quoted("true")
    ('\'it\'"\'"\'s 5%\'\\!\'\'', 'true')
    """
    if PLAIN.fullmatch(text):
        return text
    return "'" + "".join(f"'{SPECIAL[one]}'" if one in SPECIAL else one for one in text) + "'"


def in_sh(script: str) -> str:
    """The command line that runs a script, also of several lines, by `sh -c`, whatever the login shell is."""
    if "\n" not in script:
        return f"/bin/sh -c {quoted(script)}"
    encoded = script.replace("\\", "\\\\").replace("\n", "\\n")
    return f"/bin/sh -c {quoted(DECODE)} {quoted(encoded)}"


def announcement(mark: str) -> str:
    """A command for sh that prints a mark, which `set -x` would not show as a whole, in both streams."""
    half = len(mark) // 2
    return f'm={quoted(mark[:half])}; echo "$m"{quoted(mark[half:])}; echo "$m"{quoted(mark[half:])} >&2'


def expired(words: str) -> str:
    """Why a login ended that PAM let in only to change a password, with the repair; empty for other words."""
    if not EXPIRED.search(words):
        return ""
    return (
        "the password or the account of the login user has expired there, so that it runs no command although its key "
        f"is right ({words}). On its console: passwd USER, or chage --maxdays -1 --expiredate -1 USER"
    )


def reset(error: object) -> str:
    """Why sshd ended a connection after a login; empty for another error."""
    return RESET if re.search(r"reset by peer|session not active|channel closed", str(error), re.I) else ""
