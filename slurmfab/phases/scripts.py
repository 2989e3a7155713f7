"""What slurm.conf names and daemons run: prolog and epilog scripts, the health check, private directories of jobs.

It is there before the slurm.conf that names it.
"""

from __future__ import annotations

from slurmfab.agent.resource import Resource
from slurmfab.situation import Situation


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """All of it that the host needs."""
    return ()
