"""Values that several keys of a cluster file take: directories on hosts, and parts of their memory and disks."""

from __future__ import annotations

import re
from collections.abc import Callable

_DIRECTORY = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+-]+)+")
_AMOUNT = re.compile(r"\d{1,2}(\.\d+)?%|\d+[KMGT]")


def directory(example: str) -> Callable[[str], str]:
    """What lets absolute paths of plain letters through, which need no quotes anywhere.

    Args:
        example: of such a directory, for the complaint about another value (ValueError).
    """

    def checked(path: str) -> str:
        if not _DIRECTORY.fullmatch(path):
            raise ValueError(f'"{path}" is no absolute path of plain letters, such as {example}')
        return path

    return checked


def amount(example: str) -> Callable[[str], str]:
    """What lets percentages and amounts in K, M, G or T through.

    Args:
        example: of an amount, for the complaint about another value (ValueError).
    """

    def checked(said: str) -> str:
        if not _AMOUNT.fullmatch(said):
            raise ValueError(f'"{said}" is neither a percentage such as 3% nor an amount such as {example}')
        return said

    return checked
