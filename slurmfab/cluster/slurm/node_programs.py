"""The programs of slurmfab that slurm.conf names and slurmd runs: before and after jobs, and the health check."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.base.paths import PROGRAMS


@dataclass(frozen=True)
class NodePrograms:
    """The programs that a cluster uses."""

    has_prolog: bool = False  # whether nodes run the cluster file's scripts before each job
    has_epilog: bool = False  # whether nodes run the cluster file's scripts after each job
    health_interval: int = 0  # seconds between two health checks; 0 for none
    directory: str = PROGRAMS
    has_task_prolog: bool = False
