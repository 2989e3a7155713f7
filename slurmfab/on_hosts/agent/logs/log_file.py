"""The part of a log file that was written in a period, found without reading the rest."""

from __future__ import annotations

import os
from typing import BinaryIO, List, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_file
from slurmfab.on_hosts.agent.logs import line_times

PART_BYTES = 16 << 20  # the most bytes that are read of one file; of a larger part the end
NEAR_BYTES = 4096  # how near to a time the search in a file ends
LOOK_BYTES = 65536  # how far a line with a time is looked for; longer than any line of Slurm's


class Part(NamedTuple):
    """A part of a file."""

    text: str = ""  # whole lines; the first and the last ones may be of shortly before or after the period
    reaches_back: bool = False  # whether the period may have begun before this file
    is_cut: bool = False  # whether the period has more lines before these


def read_part(path: str, since: float, until: float, most: int = PART_BYTES) -> Optional[Part]:
    """The lines of a log file from a period; `None` if there is no such file.

    `most`: how many bytes are read at most. Raises ResourceFailed if it is no regular file, or may be a hard link to
    another file; or on the way there is a link that somebody else than root can change. Raises OSError if it cannot be
    read.
    """
    opened = open_file(path)
    if opened is None:
        return None
    descriptor, others = opened
    with open(descriptor, "rb") as file:
        if others and os.fstat(descriptor).st_nlink > 1:
            raise UnsafePath("%s has another name, which %s may have made; it is not read" % (path, others))
        size = file.seek(0, 2)
        first, last = search(file, size, since)[0], min(size, search(file, size, until)[1] + LOOK_BYTES)
        start = max(first, last - most)
        file.seek(start)
        data = file.read(last - start)
    if start > first:
        data = data.partition(b"\n")[2]
    return Part(data.decode(errors="replace"), first == 0, start > first)


def search(file: BinaryIO, size: int, wanted: float) -> Tuple[int, int]:
    """Two places in a log of increasing times: lines before the first are older, after the second are not."""
    low, high = 0, size
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        found = next_time(file, middle)
        if found is not None and found[1] < wanted:
            low = max(found[0], middle)
        else:
            high = middle
    return low, high


def next_time(file: BinaryIO, place: int) -> Optional[Tuple[int, float]]:
    """The first line with a time that begins behind a place: where it begins, and the time; `None` if none is near."""
    file.seek(place)
    lines: List[bytes] = file.read(LOOK_BYTES).split(b"\n")
    at = place
    for number, line in enumerate(lines):
        found = line_times.begin(line[:64].decode("ascii", "replace"))[0] if number else None
        if found is not None:
            return at, found
        at += len(line) + 1
    return None
