"""Connections from here to daemons of others, which firewalls may block; a refusal shows a way, too."""

from __future__ import annotations

import errno
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, OtherHostsFailed, Resource, ResourceFailed, State

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
