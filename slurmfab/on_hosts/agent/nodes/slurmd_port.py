"""Whether the slurmd of nodes can be reached from this host, as slurmctld has to reach it."""

from __future__ import annotations

import errno
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Sequence

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.connections import PARALLEL, attempt
from slurmfab.on_hosts.agent.nodes.states import records

MOST_PROBED = 256  # the most nodes to which connections are made; the others count as reachable
DEFAULT_PORT = 6818  # Slurm's default of SlurmdPort (slurm.conf(5))


def refusing(context: Context, nodes: Sequence[str]) -> Dict[str, str]:
    """Why connections to the slurmd of nodes fail from here, by NodeName; ResourceFailed without slurmctld."""
    asked = nodes[:MOST_PROBED]
    shown = records(context.must(commands.show_nodes(*([",".join(asked)] if asked else []))))
    port = default_port(context.must(commands.SHOW_CONFIG))
    places = {one["NodeName"]: (one.get("NodeAddr", one["NodeName"]), int(one.get("Port", port))) for one in shown}
    with ThreadPoolExecutor(PARALLEL) as pool:
        found = pool.map(lambda node: refusal(*places[node]), places)
        return {node: why for node, why in zip(places, found) if why}  # noqa: B905 - as Python 3.9 has it


def default_port(config: str) -> int:
    """SlurmdPort in the output of `scontrol show config`."""
    match = re.search(r"^SlurmdPort\s*= (\d+)", config, re.MULTILINE)
    return int(match[1]) if match else DEFAULT_PORT


def refusal(address: str, port: int) -> str:
    """Why a TCP connection to this place fails; empty if it is accepted."""
    place = "%s port %d" % (address, port)
    code, words = attempt(address, port)
    if code == errno.ETIMEDOUT:
        return "The controller gets no answer from %s, slurmd's: does a firewall drop its packets?" % place
    if code == errno.ECONNREFUSED:
        return "Nothing listens at %s, slurmd's: is slurmd running there?" % place
    return "The controller cannot connect to %s, slurmd's: %s" % (place, words) if code else ""
