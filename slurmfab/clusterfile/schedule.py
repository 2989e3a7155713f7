"""When something is done again and again, in a cluster file's words and in systemd's."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_CLOCK = re.compile(r"((?P<day>Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<time>([01]\d|2[0-3]):[0-5]\d)")
_HOUR, _DAY = 3600, 24 * 3600
_EVERY = {"hourly": _HOUR, "daily": _DAY, "weekly": 7 * _DAY}


def check(when: str) -> str:
    """The words, if they are such.

    Raises:
        ValueError: they are not.
    """
    if when not in _EVERY and not _CLOCK.fullmatch(when):
        raise ValueError(f'"{when}" is none of {", ".join(_EVERY)}, nor a time such as "03:30" or "Sun 03:30"')
    return when


When = Annotated[str, AfterValidator(check)]
"""`hourly`, `daily`, `weekly`, a time of the day, or of a day of the week."""


def calendar(when: str) -> str:
    """The same as systemd says it (systemd.time(7), calendar events).

    >>> calendar("Sun 03:30")
    'Sun *-*-* 03:30:00'
    """
    said = _CLOCK.fullmatch(when)
    return f"{said['day'] + ' ' if said['day'] else ''}*-*-* {said['time']}:00" if said else when


def period(when: str) -> int:
    """Seconds from one time to the next.

    >>> period("03:30")
    86400
    """
    said = _CLOCK.fullmatch(when)
    return (_EVERY["weekly"] if said["day"] else _DAY) if said else _EVERY[when]
