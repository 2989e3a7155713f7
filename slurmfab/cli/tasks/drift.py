"""The task that finds drift by a timer: drift."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    help={
        "install": "install a systemd timer on this machine that runs this as the cluster file's drift says",
        "remove": "remove that timer",
        "json": "write what differs as JSON to this file (- for standard output)",
    }
)
def drift(common: Common, *, install: bool = False, remove: bool = False) -> int:
    """Say in few lines what differs on hosts; changes nothing.

    It compares as plan does. With drift in the cluster file it also writes metrics for node-exporter, and sends a mail
    when something else differs than at the last mail. With monitoring, the controller keeps the numbers for Prometheus.
    Exit codes: 0 nothing differs, 1 the hosts, or some of their resources, could not be compared, or the alarm could
    not be sent, 2 wrong input, 3 nothing differs, but some hosts could not be compared, 4 something differs; some hosts
    may be missing, too.

    Examples:
        fab drift
        fab drift --install
    """
    from slurmfab.commands.drift import alarm, timer

    if install and remove:
        raise InputError("Give --install or --remove, not both.")
    if install:
        return timer.install(common.cluster)
    return timer.remove(common.cluster) if remove else alarm.run(common.cluster, common.output)
