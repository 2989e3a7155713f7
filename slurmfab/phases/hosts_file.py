"""Names: a managed block in /etc/hosts, so that every host finds every other without DNS."""

from __future__ import annotations

from slurmfab.agent.block import Block
from slurmfab.agent.resource import Resource
from slurmfab.situation import Situation


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:  # noqa: ARG001 - the same everywhere
    """One line per host of the cluster, unless `hosts_file: no`; an address that is a name is left to DNS."""
    if not situation.cluster.hosts_file:
        return (Block("/etc/hosts", "hosts", ""),)
    return (Block("/etc/hosts", "hosts", situation.names_and_addresses),)
