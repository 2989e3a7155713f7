"""Checks of the network: nodes reach slurmctld, srun and each other's slurmd, so no firewall is between them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.connections import REFUSED, Target, failures, ring, srun_ports
from slurmfab.commands.checks.daemons import listening_ports
from slurmfab.commands.checks.foundation import foundation
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import port


@foundation
def test_node_reaches_slurmctld(node: CheckedHost, cluster: Cluster, others: Mapping[str, CheckedHost]) -> None:
    """the node can connect to slurmctld, and to srun if slurm.conf sets SrunPortRange"""
    failed = failures(node, cluster, ring_of(cluster, others))
    number = port(cluster, "SlurmctldPort")
    for target, why in failed.items():
        if target.port == number and target.host in cluster.controllers and is_open(others, target, "slurmctld"):
            raise AssertionError(blocked(node.name, target, "slurmctld", str(number), why))
    ports = srun_ports(cluster)
    for target, why in failed.items():
        # srun listens only while it runs, so a refusal proves nothing.
        if ports and target == Target(cluster.controller, ports[0]) and REFUSED not in why:
            raise AssertionError(blocked(node.name, target, "srun", "-".join(map(str, ports)), why))


@foundation
def test_node_is_reached_by_others(node: CheckedHost, cluster: Cluster, others: Mapping[str, CheckedHost]) -> None:
    """another host can connect to slurmd on the node"""
    if set(cluster.hosts) == {node.name}:
        raise DoesNotApply("there is no other host")
    starts = ring_of(cluster, others)
    target = Target(node.name, port(cluster, "SlurmdPort", node.name))
    if node.name not in starts or starts[node.name] not in others:
        pytest.skip("no other host is there to try it.")
    if not is_open(others, target, "slurmd"):
        pytest.skip(f"slurmd does not listen on {node.name}.")
    start = others[starts[node.name]]
    why = failures(start, cluster, starts).get(target)
    assert not why, blocked(start.name, target, "slurmd", str(target.port), why or "")


def ring_of(cluster: Cluster, others: Mapping[str, CheckedHost]) -> dict[str, str]:
    """The host that connects to each compute node, among the reachable hosts."""
    return ring([name for name in cluster.compute_nodes if name in others], cluster.controller)


def is_open(others: Mapping[str, CheckedHost], target: Target, daemon: str) -> bool:
    """Whether a daemon listens; if it does not, or if that cannot be seen, another check reports it."""
    if target.host not in others:
        return False
    host = others[target.host]
    return bool(host.service(daemon).is_running) and target.port in listening_ports(host)


def blocked(start: str, target: Target, daemon: str, ports: str, why: str) -> str:
    """The message about a connection that fails although its port is open, or would be."""
    return (
        f"{start} cannot connect to {daemon} on {target.host}, port {target.port} ({why}): a firewall is between them. "
        f"Repair: let the cluster's hosts reach TCP port {ports} on {target.host} (nft list ruleset there shows its "
        "rules)"
    )
