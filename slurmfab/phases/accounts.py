"""What slurmdbd knows: the cluster, qualities of service, accounts and users, before slurm.conf holds anybody to it."""

from __future__ import annotations

from slurmfab.agent.resource import Resource
from slurmfab.situation import Situation


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:  # noqa: ARG001
    """What the host should have of it."""
    return ()
