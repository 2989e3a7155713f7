"""The model of the drift alarm (key `drift`): plans by a timer on the deployer, and whom they tell."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.mail import check_mailbox
from slurmfab.cluster.inventory.values import Model, Schedule, check_directory, one_or_more, systemd_calendar

_SUFFIX = ".prom"
_check_path = check_directory("/var/lib/prometheus/node-exporter/slurmfab-drift.prom")


def _check_textfile(path: str) -> str:
    if not path.endswith(_SUFFIX):
        raise ValueError(f'"{path}" does not end in {_SUFFIX}, and node-exporter reads no other files')
    return _check_path(path)


Mailbox = Annotated[str, AfterValidator(check_mailbox)]


class Drift(Model):
    """Plans by a timer on the deployer, which tell what differs on hosts."""

    when: Annotated[Schedule, Field(description="hourly, daily, weekly, 03:30 or Sun 03:30.")] = "daily"
    mail: Annotated[
        tuple[Mailbox, ...],
        BeforeValidator(one_or_more, json_schema_input_type=str | list[str]),
        Field(description="Address, or list of addresses, that get mail when something else differs than before."),
    ] = ()
    textfile: Annotated[
        Annotated[str, AfterValidator(_check_textfile)] | None,
        Field(description="File on the deployer with metrics for node-exporter; it ends in .prom."),
    ] = None

    @property
    def calendar(self) -> str:
        """The schedule as a calendar event of systemd (systemd.time(7))."""
        return systemd_calendar(self.when)
