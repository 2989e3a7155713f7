"""GPU and network checks as ordinary jobs on a schedule: a program, a timer and its settings on the controller."""

from __future__ import annotations

from slurmfab.agent.resource import Resource
from slurmfab.situation import Situation


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """All that it takes, on the primary controller."""
    return ()
