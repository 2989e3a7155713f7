"""The time at which a line of a log begins, as seconds since 1970; logs mostly have the host's local time."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import Optional, Sequence, Tuple

ISO = re.compile(
    r"\[?(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d:?\d\d))?\]?(?=\s|$)\s*"
)
"""The times of slurm.conf(5), LogTimeFormat, whose default is iso8601_ms; and of munged."""

SHORT = re.compile(r"\[?(\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)\]?(?=\s|$)\s*")
"""LogTimeFormat=short, which has no year."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
AHEAD = 86400.0  # a line without a year that would be of a later day than tomorrow is of the year before


def begin(line: str) -> Tuple[Optional[float], str]:
    """The time of a line, `None` if it begins with none, and the rest of the line."""
    found = ISO.match(line)
    try:
        if found:
            return with_fraction(found), line[found.end() :]
        found = SHORT.match(line)
        if found and found[1] in MONTHS:
            day, *clock = map(int, found.groups()[1:])
            return of_this_year(MONTHS.index(found[1]) + 1, day, clock), line[found.end() :]
    except (ValueError, OverflowError):  # a text such as 2026-99-99
        pass
    return None, line


def with_fraction(found: re.Match[str]) -> float:
    """The time in a match of `ISO`. Raises ValueError, OverflowError if there is no such time."""
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction = float("0." + (found[7] or "0"))
    if not found[8]:
        return local_minute(year, month, day, hour, minute) + second + fraction
    digits = found[8].replace(":", "").replace("Z", "+0000")
    offset = int(digits[1:3]) * 3600 + int(digits[3:5]) * 60
    return utc_minute(year, month, day, hour, minute) + second + fraction - (offset if digits[0] == "+" else -offset)


def of_this_year(month: int, day: int, clock: Sequence[int]) -> float:
    """The latest such time that is not in the future; ValueError or OverflowError if there is none."""
    now = time.time()
    year = time.localtime(now).tm_year
    found = local_minute(year, month, day, clock[0], clock[1]) + clock[2]
    return found if found <= now + AHEAD else local_minute(year - 1, month, day, clock[0], clock[1]) + clock[2]


@lru_cache(maxsize=4096)
def local_minute(year: int, month: int, day: int, hour: int, minute: int) -> float:
    """The beginning of a minute in the host's local time; it is asked many times for the same."""
    require(month, day, hour, minute)
    return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))


@lru_cache(maxsize=4096)
def utc_minute(year: int, month: int, day: int, hour: int, minute: int) -> float:
    """The beginning of a minute in UTC."""
    import calendar

    require(month, day, hour, minute)
    return float(calendar.timegm((year, month, day, hour, minute, 0)))


def require(month: int, day: int, hour: int, minute: int) -> None:
    """Raise ValueError for what mktime(3) would make another day of."""
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):  # noqa: PLR2004
        raise ValueError
