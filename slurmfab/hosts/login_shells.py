"""Command lines that every login shell reads alike: sh, bash, zsh, csh, tcsh and fish.

sshd passes a command line to the login shell of the user, which is fish or tcsh for some. What such a shell's start
files print comes before the command's own output, so each command announces itself by a mark.
"""

from __future__ import annotations

import re

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
