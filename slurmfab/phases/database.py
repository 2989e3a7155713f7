"""The accounting database: MariaDB, its user and slurmdbd, on the host that the cluster file names."""

from __future__ import annotations

from slurmfab.agent.resource import Resource
from slurmfab.situation import Situation


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:  # noqa: ARG001
    """What the host should have of it."""
    return ()
