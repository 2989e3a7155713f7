"""TCP connections between the hosts of a cluster, tried by the hosts themselves: a firewall is between two of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import port, setting

SECONDS = 4
"""How long a connection may take within a cluster."""

TRY = (
    f'try() {{ out=$(timeout {SECONDS} bash -c \'exec 3<>/dev/tcp/$0/$1\' "$2" "$3" 2>&1); '
    'echo "$1 $3 $? ${out##*: }"; }; '
)
"""Defines a function of name, address and port that prints name, port, exit code, and the last words of the error."""

ANSWER = re.compile(r"^(\S+) (\d+) (\d+) ?(.*)$", re.MULTILINE)
"""A line of that function."""

NO_ANSWER = 124
"""Exit code of timeout(1) if the command did not end."""

REFUSED = "refused"
"""Part of the error if nothing listens there; a firewall can say the same."""


class Target(NamedTuple):
    """An end of a connection."""

    host: str  # the name of the host
    port: int


def srun_ports(cluster: Cluster) -> tuple[int, int] | None:
    """SrunPortRange, on which srun waits for the nodes of its job; `None` if any port serves."""
    found = re.fullmatch(r"(\d+)-(\d+)", setting(cluster.slurm_conf, "SrunPortRange").strip())
    return (int(found[1]), int(found[2])) if found else None


def ring(nodes: Sequence[str], controller: str) -> dict[str, str]:
    """For each compute node the host that connects to its slurmd: another compute node, or else the controller.

    >>> ring(("n1", "n2", "n3"), "ctl"), ring(("n1",), "ctl")
    ({'n1': 'n3', 'n2': 'n1', 'n3': 'n2'}, {'n1': 'ctl'})
    """
    if len(nodes) == 1:
        return {node: controller for node in nodes if node != controller}
    return {node: nodes[place - 1] for place, node in enumerate(nodes)}


def targets_of(cluster: Cluster, start: str, ring: Mapping[str, str]) -> tuple[Target, ...]:
    """What a host has to reach: each slurmctld, srun on the controller, and slurmd on another node.

    Args:
        start: the host that connects.
        ring: the host that connects to each compute node.
    """
    others = tuple(name for name in cluster.controllers if name != start)
    ports = srun_ports(cluster)
    return (
        *(Target(name, port(cluster, "SlurmctldPort")) for name in others),
        *((Target(cluster.controller, ports[0]),) if ports and cluster.controller != start else ()),
        *(Target(goal, port(cluster, "SlurmdPort", goal)) for goal, one in ring.items() if one == start),
    )


def failures(host: CheckedHost, cluster: Cluster, ring: Mapping[str, str]) -> dict[Target, str]:
    """The connections of a host that fail, with the host's words; asked by one command, and once.

    Args:
        host: the host that connects.
        ring: the host that connects to each compute node.
    """
    targets = targets_of(cluster, host.name, ring)
    if not targets:
        return {}
    text = script([(target, cluster.addresses.get(target.host, target.host)) for target in targets])
    answers = ANSWER.findall(host.as_found.ask(text))
    found = {Target(name, int(number)): reason(int(code), error) for name, number, code, error in answers}
    return {target: why for target in targets if (why := found.get(target, "no result"))}


def script(targets: Sequence[tuple[Target, str]]) -> str:
    """The shell text that tries all connections at the same time; each target with its address."""
    tries = (f"try {shlex.join((target.host, address, str(target.port)))} &" for target, address in targets)
    return f"{TRY}{' '.join(tries)} wait"


def reason(code: int, error: str) -> str:
    """Why a connection failed; empty if it did not.

    Args:
        error: the last words of its error output.
    """
    if code == NO_ANSWER:
        return f"no answer within {SECONDS} s"
    return (error.strip() or f"exit code {code}") if code else ""
