"""The rotation of the logs of Slurm's daemons, where the packages bring none."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.files.owned_files import OwnedFile
from slurmfab.paths import SLURM_LOGS
from slurmfab.plan.phases.owned import owned
from slurmfab.plan.plan_input import PlanInput

OF = "log-rotation"
"""What the facts of a host with this file have among `owned`."""

PATH = "/etc/logrotate.d/slurmfab-slurm"
RULE = """\
# Made by slurmfab from the cluster file; edits here are overwritten.
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


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """A file for logrotate(8), as the distribution's packages have one; its removal where these are wanted again."""
    platform = plan_input.platform
    text = RULE.format(logs=SLURM_LOGS, units=" ".join(platform.units))
    return owned(plan_input, host, OF, () if platform.rotates_logs else (OwnedFile(PATH, text),))
