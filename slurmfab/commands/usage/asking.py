"""Asks the cluster what its jobs used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmfab.base.errors import HostError, InputError
from slurmfab.commands.usage.figures import Usage, from_answer
from slurmfab.hosts.session import answer_value

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.hosts.transport import Transport

SINCE = "30d"  # where the window begins if nothing else is said
IDLE_MINUTES = 10  # from which age on a job can hold its GPUs idle

_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?)?")


def ask(
    cluster: Cluster, transport: Transport, since: str = SINCE, until: str = "", idle_minutes: int = IDLE_MINUTES
) -> Usage | None:
    """What jobs used between two times (see `moment`), of the first controller that answers; `None` without records.

    `idle_minutes`: from then on a job can hold its GPUs idle. Raises InputError for a time, HostError for silence.
    """
    request = {
        "op": "usage",
        "since": moment(since, "--since"),
        "until": moment(until, "--until"),
        "idle_seconds": idle_minutes * 60,
    }
    lost: HostError | None = None
    for host in cluster.controllers:
        try:
            return from_answer(cluster.name, answer_value(host, transport.call(host, request), "usage"))
        except HostError as error:
            lost = lost or error
    assert lost is not None, "every cluster has a controller"
    raise lost


def moment(text: str, flag: str) -> str:
    """A time as the agent wants it: in the controller's zone, or as seconds from now, such as `-86400`.

    >>> moment("2026-11-01", "--since"), moment("7d", "--since")
    ('2026-11-01T00:00:00', '-604800')

    Args:
        text: `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM` with or without `:SS`, or an age such as `12h`, `7d` or `4w`.

    Raises:
        InputError: it is none of these.
    """
    age, time = _AGE.fullmatch(text), _TIME.fullmatch(text)
    if age:
        return str(-int(age[1]) * _UNITS[age[2]])
    if time:
        return f"{time[1]}T{time[2] or '00:00'}{time[3] or ':00'}"
    if text:
        raise InputError(f'{flag} "{text}": give a time such as 2026-11-01 or 2026-11-01T08:00, or an age such as 7d.')
    return ""
