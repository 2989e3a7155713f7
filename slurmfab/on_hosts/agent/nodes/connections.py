"""Connections from here to daemons of others, as of slurmctld to slurmd, which firewalls may block."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Dict, List, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, OtherHostsFailed, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import records

CONNECT_SECONDS = 4.0  # time for a connection: the kernel repeats a lost packet after one and after three seconds

PARALLEL = 64
OPEN = "open"
UNKNOWN = -1  # in place of an error number: the name has no address here

SILENT = "no answer within %.0f s" % CONNECT_SECONDS
WAYS = "`nft list ruleset` there shows rules, `iptables -S` those of iptables; a router between them may have some, too"

OWN = "has a firewall of its own (%s), which drops what it does not know: no rules of slurmfab's can open that"


class Connections(Resource):
    """Ports of other hosts that this one reaches."""

    kind: ClassVar[str] = "connections"
    here: str  # the name of this host
    targets: Tuple[Tuple[str, str, int, str], ...]  # host, address, TCP port and daemon of each
    # The hosts whose failure it is if they are not reached; it is this one's for the others.
    nodes: Tuple[str, ...] = ()

    def name(self) -> str:
        """The direction."""
        return "from " + self.here

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """All open."""
        return {"%s on %s port %d" % (daemon, host, port): OPEN for host, _, port, daemon in self.targets}

    def actual(self, context: Context) -> State:
        """Open, or why not; a firewall of the host's own adds a remark."""
        own = chains(printed(context, "nft", "-j", "list", "chains"))
        if own:
            context.remark = OWN % ", ".join(own)
        with ThreadPoolExecutor(PARALLEL) as pool:
            found = list(pool.map(lambda one: blocked(one[1], one[2]), self.targets))
        return {name: why or OPEN for name, why in zip(self.wanted(context), found)}  # noqa: B905 - as Python 3.9 has it

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Tell which are blocked, opening no firewall; ResourceFailed of own ones, OtherHostsFailed of others."""
        found = self.actual(context)
        others: Dict[str, List[str]] = {}
        own: List[str] = []
        for (host, address, port, daemon), why in zip(self.targets, found.values()):  # noqa: B905
            if why != OPEN:
                told = "%s cannot connect to %s on %s, %s TCP port %d: %s" % (
                    self.here,
                    daemon,
                    host,
                    address,
                    port,
                    why,
                )
                (others.setdefault(host, []) if host in self.nodes else own).append(told)
        if own:
            raise ResourceFailed("%s. Let %s in there: %s" % ("; ".join(own), self.here, WAYS))
        if others:
            way = "%s. Let %s in there: " + WAYS
            raise OtherHostsFailed({host: way % ("; ".join(told), self.here) for host, told in others.items()})


def printed(context: Context, *argv: str) -> str:
    """What a program prints; nothing where it is not installed."""
    try:
        return context.run(argv).stdout.decode(errors="replace")
    except ResourceFailed:
        return ""


def chains(listing: str) -> List[str]:
    """Family, table and name of others' chains in `nft -j list chains` that drop what no rule accepts."""
    try:
        found = [one["chain"] for one in json.loads(listing or "{}").get("nftables", ()) if "chain" in one]
    except ValueError:
        return []
    dropping = (one for one in found if one.get("hook") == "input" and one.get("policy") == "drop")
    return ["%(family)s %(table)s %(name)s" % one for one in dropping]


def blocked(address: str, port: int) -> str:
    """What keeps packets from a place; empty if they arrive, or if only its name is not known here."""
    code, words = attempt(address, port)
    return "" if code in (0, errno.ECONNREFUSED, UNKNOWN) else words


def attempt(address: str, port: int) -> Tuple[int, str]:
    """The error number, or `UNKNOWN`, and the text with which a TCP connection fails; 0 where it does not."""
    try:
        socket.create_connection((address, port), CONNECT_SECONDS).close()
    except socket.gaierror as error:
        return UNKNOWN, str(error.strerror)
    except (socket.timeout, TimeoutError):
        return errno.ETIMEDOUT, SILENT
    except OSError as error:
        return error.errno or errno.EIO, os.strerror(error.errno) if error.errno else str(error)
    return 0, ""


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
