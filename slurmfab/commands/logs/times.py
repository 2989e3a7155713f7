"""Times on the command line: `2h` ago, `14:30`, `2026-11-23T14:30`; without a zone in this machine's local time."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import NamedTuple

from slurmfab.base.errors import InputError

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
AROUND = 600.0  # seconds before and after the time of `--around`
USUAL = "1h"  # how long ago the period begins where nothing is said

MOST_SECONDS = 366 * 86400.0
_AGO = re.compile(r"(\d{1,6}) ?(s|m|min|h|d|w)(?: ago)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")


class Period(NamedTuple):
    """A period, in seconds since 1970."""

    since: float  # begin of the period
    until: float  # its end


class Asked(NamedTuple):
    """The options about time, as they were given; empty for none."""

    since: str = ""
    until: str = ""
    around: str = ""


def period(asked: Asked, known: Period | None = None, now: float | None = None) -> Period:
    """The period that was asked for; what the options leave open is the job's, or else the last hour.

    Raises InputError if a text is not a time, or the end is before the beginning.
    """
    present = time.time() if now is None else now
    if asked.around and (asked.since or asked.until):
        raise InputError("--around takes the place of --since and --until: give it alone.")
    if asked.around:
        middle = moment(asked.around, "--around", present)
        return Period(middle - AROUND, middle + AROUND)
    until = moment(asked.until, "--until", present) if asked.until else None
    since = moment(asked.since, "--since", present) if asked.since else None
    if known is None:
        end = present if until is None else until
        known = Period(min(present, end) - moment_length(USUAL), end)
    found = Period(known.since if since is None else since, known.until if until is None else until)
    if found.until <= found.since:
        raise InputError("The period ends before it begins: see --since and --until.")
    if found.until - found.since > MOST_SECONDS:
        raise InputError("The period is longer than a year: see --since and --until.")
    return found


def moment(text: str, flag: str, now: float) -> float:
    """A time in seconds since 1970. `text`: as on the command line. Raises InputError if it is not a time."""
    word = text.strip()
    if word == "now":
        return now
    if _AGO.fullmatch(word):
        return now - moment_length(word)
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        clock = _CLOCK.fullmatch(word)
        if clock:
            # A time of day that is still to come today was yesterday.
            found = today.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0)).timestamp()
            return found if found <= now else found - 86400
        return (days[word] if word in days else datetime.fromisoformat(word)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(
            f"{flag} {text}: this is no time. Write for example 2h (ago), 14:30, 2026-11-23T14:30 or yesterday."
        ) from None


def moment_length(text: str) -> float:
    """The seconds in a text such as `2h`, which has the form of one."""
    found = _AGO.fullmatch(text)
    assert found, text
    return float(int(found[1]) * UNITS[found[2]])
