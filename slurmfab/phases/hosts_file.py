"""Names: a managed block in /etc/hosts, so that every host finds every other without DNS."""

from __future__ import annotations

from slurmfab.agent.block import Block
from slurmfab.agent.resource import Resource
from slurmfab.phases.once import once
from slurmfab.situation import Situation


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:  # noqa: ARG001 - the same everywhere
    """One line per host of the cluster, unless `hosts_file: no`; an address that is a name is left to DNS."""
    return (block(situation),)


@once
def block(situation: Situation) -> Block:
    """The block that all hosts have."""
    return Block("/etc/hosts", "hosts", situation.names_and_addresses if situation.cluster.hosts_file else "")
