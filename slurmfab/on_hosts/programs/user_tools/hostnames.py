"""Names of many nodes as one short text."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Tuple

_NUMBERED = r"(.*?)([0-9]{1,18})"


def fold(names: Iterable[str]) -> str:
    """Names as a hostlist of Slurm's.

    >>> fold(["n3", "n1", "n2", "gpu01", "login"])
    'n[1-3],gpu01,login'

    Args:
        names: in any order.
    """
    parts = [(match[1], match[2]) if (match := re.fullmatch(_NUMBERED, name)) else (name, "") for name in names]
    # A number with zeros before it has a fixed width, which others may fill: 08, 09, 10. Without any, 9 and 10 follow.
    widths = {(stem, len(number)) for stem, number in parts if number.startswith("0")}
    groups: Dict[Tuple[str, int], List[int]] = {}
    for stem, number in dict.fromkeys(parts):
        width = len(number) if (stem, len(number)) in widths else 0
        groups.setdefault((stem, width), []).append(int(number) if number else -1)
    return ",".join(text(stem, width, sorted(numbers)) for (stem, width), numbers in groups.items())


def text(stem: str, width: int, numbers: List[int]) -> str:
    """The names with one stem, numbers in order (-1: none) with zeros to a width (0: any)."""
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    parts = ["-".join("%0*d" % (width, bound) for bound in dict.fromkeys(one)) for one in ranges]
    if numbers == [-1]:
        return stem
    return "%s[%s]" % (stem, ",".join(parts)) if len(numbers) > 1 else stem + parts[0]
