"""The model of scheduled backups (key `backup`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from slurmfab.cluster.inventory.age_recipients import check_recipient
from slurmfab.cluster.inventory.values import Model, Schedule, check_directory, period, systemd_calendar

_HOUR = 3600
_MOST_KEPT = 10_000


class Backup(Model):
    """Backups that the controller and the database host make by a systemd timer."""

    directory: Annotated[
        str,
        AfterValidator(check_directory("/srv/slurm-backups")),
        Field(description="Directory on the hosts for their backups."),
    ]
    when: Annotated[Schedule, Field(description="hourly, daily, weekly, 03:30 or Sun 03:30.")] = "daily"
    # older ones are deleted
    keep: Annotated[int, Field(ge=1, le=_MOST_KEPT, description="Number of backups to keep.")] = 14
    encrypt_to: Annotated[
        tuple[Annotated[str, AfterValidator(check_recipient)], ...],
        Field(description="Public keys (of age, or SSH) to which backups are encrypted, those of fab backup included."),
    ] = ()

    @property
    def calendar(self) -> str:
        """The schedule as a calendar event of systemd (systemd.time(7))."""
        return systemd_calendar(self.when)

    @property
    def oldest(self) -> int:
        """The highest age of the newest backup in seconds: one backup may be missed, as while a host is off."""
        return 2 * period(self.when) + _HOUR
