"""Checks of nodes when all others have run: what a node is at the end counts."""

from __future__ import annotations

import pytest

from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.applies import Seen
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.core.impact.drift_kinds import acceptance


def test_node_still_takes_jobs(node: CheckedHost, slurm: Slurm) -> None:
    """the node is still in service after all checks"""
    if not node_state.is_ready(slurm.node_as_found(node.name)):
        pytest.skip(f"{node.name} was out of service before.")
    record = slurm.nodes_at_end.get(node.name, {})
    complaint = node_state.complaint(node.name, record, acceptance(node.name))
    if complaint:
        raise Seen(node_state.sign(record), f"Slurm took the node out of service during the checks: {complaint}")
