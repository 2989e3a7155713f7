"""How Slurm's files spell values, and lists of nodes or device files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from slurmfab.errors import InputError


def assignment(key: str, value: str) -> str:
    """A key and its value as Slurm's files want them.

    >>> assignment("Reason", "new board")
    'Reason="new board"'

    Args:
        key: as slurm.conf(5) spells it.
        value: what stands right of the `=`; quotes are added where a blank needs them.

    Raises:
        InputError: the value holds a line break, which would begin another setting.
    """
    text = str(value)
    if "\n" in text or "\r" in text:
        raise InputError(f"{key}: its value holds a line break, and a line is all that Slurm's files give it.")
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return f'{key}="{text}"' if re.search(r"\s", text) and not is_quoted else f"{key}={text}"


def fold_in_order(names: Sequence[str]) -> str:
    """Names as a hostlist that Slurm expands to the same names in the same order.

    Unlike `hostlist.fold` it never reorders, because Slurm pairs NodeName and NodeAddr by position. Only numbers at the
    end are folded: Slurm 22.05 takes no text behind a bracket.

    >>> fold_in_order(("n1", "n2", "n4", "gate"))
    'n[1-2,4],gate'
    """
    families = groupby(map(_split, names), lambda part: part[0])
    return ",".join(_bracket(prefix, [digits for _, digits in family]) for prefix, family in families)


def unfolded(files: str) -> tuple[str, ...]:
    """Device files as gres.conf(5) lists them, each by itself; what is no such list is left as it is.

    >>> unfolded("/dev/nvidia[0-1,3],/dev/accel0")
    ('/dev/nvidia0', '/dev/nvidia1', '/dev/nvidia3', '/dev/accel0')
    """
    found: list[str] = []
    for entry in re.findall(r"(?:\[[^\]]*\]|[^,])+", files):
        folded = re.fullmatch(r"([^\[\]]*)\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]", entry.strip())
        if not folded:
            found.append(entry.strip())
            continue
        for part in folded[2].split(","):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{folded[1]}{number:0{len(first)}}" for number in numbers]
    return tuple(found)


def natural(name: str) -> tuple[str, int, str]:
    """Sorts n2 before n10."""
    prefix, digits = _split(name)
    return prefix, int(digits or -1), digits


def _split(name: str) -> tuple[str, str]:
    """A name as what stands before its last number, and that number's digits (none where it does not end in one)."""
    digits = re.search(r"\d{0,9}$", name)
    number = digits[0] if digits else ""
    return name[: len(name) - len(number)], number


def _bracket(prefix: str, numbers: Sequence[str]) -> str:
    """A prefix with its numbers, runs as ranges."""
    if len(numbers) == 1 or not all(numbers):
        return ",".join(prefix + number for number in numbers)
    runs: list[list[str]] = []
    for number in numbers:
        if runs and str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])) == number:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return f"{prefix}[{','.join('-'.join(run) for run in runs)}]"
