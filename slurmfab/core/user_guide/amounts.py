"""Times and memory in the words of people."""

from __future__ import annotations

_HOUR, _DAY = 60, 24 * 60
_KIBI = 1024


def duration(minutes: int) -> str:
    """A number of minutes in days, hours and minutes.

    >>> duration(36 * 60), duration(1), duration(90)
    ('1 day 12 hours', '1 minute', '1 hour 30 minutes')
    """
    days, rest = divmod(minutes, _DAY)
    hours, rest = divmod(rest, _HOUR)
    parts = [counted(number, word) for number, word in ((days, "day"), (hours, "hour"), (rest, "minute")) if number]
    return " ".join(parts) or "0 minutes"


def gigabytes(mebibytes: int) -> str:
    """Memory as a job may ask for it: whole gigabytes, or megabytes where there are few.

    >>> gigabytes(515000), gigabytes(800)
    ('502G', '800M')
    """
    return f"{mebibytes // _KIBI}G" if mebibytes >= _KIBI else f"{mebibytes}M"


def exactly(mebibytes: int) -> str:
    """Memory to be told and not asked for: gigabytes with one decimal.

    >>> exactly(3891), exactly(2048), exactly(800)
    ('3.8G', '2G', '800M')
    """
    gigabytes = f"{mebibytes / _KIBI:.1f}".removesuffix(".0")
    return f"{gigabytes}G" if mebibytes >= _KIBI else f"{mebibytes}M"


def counted(number: int, word: str) -> str:
    """A number with its word in singular or plural.

    >>> counted(1, "node"), counted(1200, "node")
    ('1 node', '1,200 nodes')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
