"""The programs of slurmfab that slurm.conf names and slurmd runs: before and after jobs, and the health check."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.base.paths import PROGRAMS


@dataclass(frozen=True)
class NodePrograms:
    """The programs that a cluster uses.

    Args:
        has_prolog: whether nodes run the cluster file's scripts before each job.
        has_epilog: whether nodes run the cluster file's scripts after each job.
        health_interval: seconds between two health checks; 0 for none.
        directory: directory of the programs on hosts.
        has_task_prolog: whether nodes give jobs the variables of the cluster file.
    """

    has_prolog: bool = False
    has_epilog: bool = False
    health_interval: int = 0
    directory: str = PROGRAMS
    has_task_prolog: bool = False
