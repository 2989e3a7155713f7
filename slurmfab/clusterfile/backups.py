"""The model of backups that hosts make by themselves."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from slurmfab.clusterfile import schedule, values
from slurmfab.clusterfile.model import Model

_HOUR = 3600
_MOST_KEPT = 10_000


class Backup(Model):
    """Backups that controller and database host make by a timer of systemd's.

    Args:
        directory: where on these hosts they lie; best on another machine's disk.
        when: `hourly`, `daily`, `weekly`, a time of the day, or of a day of the week.
        keep: how many stay; the oldest go.
    """

    directory: Annotated[
        str,
        AfterValidator(values.directory("/srv/slurm-backups")),
        Field(description="Directory on the hosts for their own backups."),
    ]
    when: Annotated[schedule.When, Field(description="hourly, daily, weekly, 03:30 or Sun 03:30.")] = "daily"
    keep: Annotated[int, Field(ge=1, le=_MOST_KEPT, description="How many backups stay.")] = 14

    @property
    def calendar(self) -> str:
        """The same as systemd says it (systemd.time(7), calendar events)."""
        return schedule.calendar(self.when)

    @property
    def oldest(self) -> int:
        """Seconds that the newest backup may be old: one may be missed, as when a host was off."""
        return 2 * schedule.period(self.when) + _HOUR
