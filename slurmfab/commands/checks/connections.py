"""TCP connections between the hosts of a cluster, tried by the hosts themselves: a firewall is between two of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.ports import Target, needed
from slurmfab.commands.checks.hosts import CheckedHost

SECONDS = 4  # how long a connection may take within a cluster

TRY = (
    f'try() {{ out=$(timeout {SECONDS} bash -c \'exec 3<>/dev/tcp/$0/$1\' "$2" "$3" 2>&1); '
    'echo "$1 $3 $? ${out##*: }"; }; '
)
"""Defines a function of name, address and port that prints name, port, exit code, and the last words of the error."""

ANSWER = re.compile(r"^(\S+) (\d+) (\d+) ?(.*)$", re.MULTILINE)  # a line of that function
NO_ANSWER = 124  # exit code of timeout(1) if the command did not end
REFUSED = "refused"  # part of the error if nothing listens there; a firewall can say the same


def failures(host: CheckedHost, cluster: Cluster, ring: Mapping[str, str]) -> dict[Target, str]:
    """The connections of a host that fail, in its words, asked once by one command."""
    targets = needed(cluster, host.name, ring)
    if not targets:
        return {}
    places = [(one, one.address or cluster.addresses.get(one.host, one.host)) for one in targets]
    answers = ANSWER.findall(host.as_found.ask(script(places)))
    found = {(name, int(number)): reason(int(code), error) for name, number, code, error in answers}
    return {target: why for target in targets if (why := found.get((target.host, target.port), "no result"))}


def script(targets: Sequence[tuple[Target, str]]) -> str:
    """The shell text that tries all connections at the same time; each target with its address."""
    tries = (f"try {shlex.join((target.host, address, str(target.port)))} &" for target, address in targets)
    return f"{TRY}{' '.join(tries)} wait"


def reason(code: int, error: str) -> str:
    """Why a connection failed; empty if it did not. `error`: the last words of its error output."""
    if code == NO_ANSWER:
        return f"no answer within {SECONDS} s"
    return (error.strip() or f"exit code {code}") if code else ""
