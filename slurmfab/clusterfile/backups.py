"""The model of backups that hosts make by themselves."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from slurmfab.clusterfile.model import Model

_DIRECTORY = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+-]+)+")
_CLOCK = re.compile(r"((?P<day>Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<time>([01]\d|2[0-3]):[0-5]\d)")
_HOUR, _DAY = 3600, 24 * 3600
_EVERY = {"hourly": _HOUR, "daily": _DAY, "weekly": 7 * _DAY}
_MOST_KEPT = 10_000


def _check_directory(directory: str) -> str:
    if not _DIRECTORY.fullmatch(directory):
        raise ValueError(f'"{directory}" is no absolute path of plain letters, such as /srv/slurm-backups')
    return directory


def _check_when(when: str) -> str:
    if when not in _EVERY and not _CLOCK.fullmatch(when):
        raise ValueError(f'"{when}" is none of {", ".join(_EVERY)}, nor a time such as "03:30" or "Sun 03:30"')
    return when


class Backup(Model):
    """Backups that controller and database host make by a timer of systemd's.

    Args:
        directory: where on these hosts they lie; best on another machine's disk.
        when: `hourly`, `daily`, `weekly`, a time of the day, or of a day of the week.
        keep: how many stay; the oldest go.
    """

    directory: Annotated[
        str, AfterValidator(_check_directory), Field(description="Directory on the hosts for their own backups.")
    ]
    when: Annotated[
        str, AfterValidator(_check_when), Field(description="hourly, daily, weekly, 03:30 or Sun 03:30.")
    ] = "daily"
    keep: Annotated[int, Field(ge=1, le=_MOST_KEPT, description="How many backups stay.")] = 14

    @property
    def calendar(self) -> str:
        """The same as systemd says it (systemd.time(7), calendar events)."""
        said = _CLOCK.fullmatch(self.when)
        return f"{said['day'] + ' ' if said['day'] else ''}*-*-* {said['time']}:00" if said else self.when

    @property
    def oldest(self) -> int:
        """Seconds that the newest backup may be old: one may be missed, as when a host was off."""
        said = _CLOCK.fullmatch(self.when)
        between = (_EVERY["weekly"] if said["day"] else _DAY) if said else _EVERY[self.when]
        return 2 * between + _HOUR
