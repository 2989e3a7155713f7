"""The nodes that slurmctld may switch off and on, as slurm.conf has them (slurm.conf(5), power saving)."""

from __future__ import annotations

from dataclasses import dataclass

NEVER_BY_ITSELF = 365 * 86400
"""SuspendTime in seconds. slurmctld switches nodes only with a SuspendTime; by itself it shall switch off none: up to
22.05 it would take drained nodes, too, and it counts nodes that stay on (`SuspendExcNodes=n[1-8]:2`) only for lists
without a comma. The program of slurmfab's timer decides instead, the same with every version."""


@dataclass(frozen=True)
class PowerSaving:
    """The values of slurm.conf's lines about power saving."""

    suspend: str
    resume: str
    always_on: str  # hostlist of the nodes that are never switched off; empty for none
    suspend_timeout: int  # seconds until a node is off
    resume_timeout: int  # seconds until a node that was switched on answers
    rate: int  # most nodes that are switched off, and on, within a minute
    never: int = NEVER_BY_ITSELF
