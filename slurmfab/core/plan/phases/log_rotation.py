"""The rotation of the logs of Slurm's daemons: of slurmd's, and of the others where the packages' own does not work."""

from __future__ import annotations

from functools import cache

from slurmfab.base.paths import SLURM_LOGS, SLURMD_LOGS
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.plan.directories import slurmd_log
from slurmfab.core.plan.phases.capability import HEAD, owned
from slurmfab.core.plan.phases.daemon_users import ROLES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.packaged_rotation import PackagedRotation

OF = "log-rotation"  # what the facts of a host with this file have among `owned`

PATH = "/etc/logrotate.d/slurmfab-slurm"
SLURMD_PATH = "/etc/logrotate.d/slurmfab-slurmd"
"""About slurmd's log, which the packages rotate nowhere but in the directory of slurm."""

BY_SIGNAL = SlurmVersion(24, 5)
"""From here on the files of Debian's packages send a signal; those of Debian 12 call an init script."""

RULE = (
    HEAD
    + """\
{logs}/*.log {{
    size 5M
    rotate 12
    compress
    delaycompress
    missingok
    notifempty
    nocreate
    sharedscripts
    postrotate
        # SIGUSR2 has the daemons open their logs anew; SIGHUP would reconfigure them (slurmctld(8), slurmd(8)).
        for unit in {units}; do
            systemctl --quiet is-active $unit && systemctl kill --kill-who=main --signal=SIGUSR2 $unit
        done
        true
    endscript
}}
"""
)


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Files for logrotate(8); their removal where the logs are not there any more, or the packages rotate them."""
    if not plan_input.cluster.rotate_logs:
        return owned(plan_input, host, OF, ())
    platform = plan_input.platform_of(host)
    has_log = "compute" in plan_input.cluster.roles(host) and slurmd_log(plan_input, host).startswith(f"{SLURMD_LOGS}/")
    files = (
        *((rotation(PATH, SLURM_LOGS, platform.units),) if not platform.rotates_logs else ()),
        *((rotation(SLURMD_PATH, SLURMD_LOGS, ("slurmd",)),) if has_log else ()),
    )
    asks = platform.rotates_logs and plan_input.slurm_of(host) < BY_SIGNAL
    daemons = [daemon for daemon, role in ROLES.items() if asks and role in plan_input.cluster.roles(host)]
    return (
        *owned(plan_input, host, OF, files),
        *(PackagedRotation(daemon, f"{platform.programs}/{daemon}") for daemon in daemons),
    )


@cache
def rotation(path: str, logs: str, units: tuple[str, ...]) -> OwnedFile:
    """The file for logrotate about the logs of one directory. `units`: the units of the daemons that write there."""
    return OwnedFile(path, RULE.format(logs=logs, units=" ".join(units)))
