"""Where daemons listen on lab hosts, by ss(8): what a capability may add, and nothing else."""

from __future__ import annotations

from lab_cluster import DeployedLab

from slurmfab.commands.checks.listeners import ASK, listeners

SLURM = {"slurmctld": "6817", "slurmd": "6818", "slurmdbd": "6819"}
"""The ports of Slurm's daemons, which listen on all addresses; slurmrestd, munge and sackd listen on none."""


def listening(lab: DeployedLab, *hosts: str) -> dict[str, set[str]]:
    """Unit, address and port of each listener, by host; without those of job steps and of the host's own system."""
    return {host: set(map(str, listeners(lab.on(host, ASK)))) for host in hosts}


def slurms(*units: str) -> set[str]:
    """Where these daemons of Slurm's listen."""
    return {f"{unit} on *:{SLURM[unit]}" for unit in units}
