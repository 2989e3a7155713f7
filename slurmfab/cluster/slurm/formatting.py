"""Format a key and its value for Slurm's files; `slurmfab.base.hostlist` formats lists of nodes and device files."""

from __future__ import annotations

import re

from slurmfab.base.errors import InputError


def assignment(key: str, value: str) -> str:
    """Format a key and its value for Slurm's files.

    >>> assignment("Reason", "new board")
    'Reason="new board"'

    Args:
        key: as slurm.conf(5) spells it.
        value: the text after the `=`; quotes are added if it contains white space.

    Raises:
        InputError: the value contains a line break, which would begin another setting.
    """
    text = str(value)
    if "\n" in text or "\r" in text:
        raise InputError(f"{key}: its value contains a line break, which Slurm's files do not allow.")
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return f'{key}="{text}"' if re.search(r"\s", text) and not is_quoted else f"{key}={text}"
