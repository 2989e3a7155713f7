"""How many hosts are worked on at a time: a number of them, or a part of all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from slurmfab.base.errors import InputError

HUNDRED = 100


def batch_size(text: str, count: int) -> int:
    """How many hosts a batch has, at least one.

    >>> batch_size("10%", 64), batch_size("4", 64)
    (7, 4)

    Args:
        text: a number, or a percentage such as `10%`.
        count: how many hosts there are.

    Raises:
        InputError: it is neither, or 0, or more than 100%.
    """
    match = re.fullmatch(r"([0-9]{1,6})(%?)", text.strip())
    number = int(match[1]) if match else 0
    if not match or number < 1 or (match[2] and number > HUNDRED):
        raise InputError(f"--at-once {text}: give a number of hosts, such as 4, or a part of them, such as 10%.")
    return max(1, math.ceil(count * number / HUNDRED) if match[2] else number)


def batches(hosts: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield hosts in batches, in their order.

    >>> list(batches(("n1", "n2", "n3"), 2))
    [('n1', 'n2'), ('n3',)]
    """
    for first in range(0, len(hosts), size):
        yield tuple(hosts[first : first + size])
