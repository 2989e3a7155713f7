"""Paths on hosts that the agent and the deployer both need."""

from __future__ import annotations

SLURM_DIRECTORY = "/etc/slurm"
"""Slurm's configuration files, the same on all hosts."""

MUNGE_KEY = "/etc/munge/munge.key"

PROGRAMS = "/usr/local/lib/slurmfab"
"""The directory of the programs that stay on hosts because the cluster file asks for them."""

HEALTH_CHECK = PROGRAMS + "/health-check"
"""The health check of compute nodes, which slurm.conf names as HealthCheckProgram."""
