"""What people's homes and the directories of jobs on nodes' own disks hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.terminal import BOLD, YELLOW, Paint
from slurmfab.core.status.text import colour_table
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.people.directory_sizes import LATE, PARTLY

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.hosts.transport import Transport

HOME = "/home"  # where homes are, if the cluster file does not say it
SECONDS = 120  # time limit of the work on each host

MOST_ROWS = 30
STATES = {PARTLY: " (not all could be read)", LATE: "not measured in time"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True)
class Held:
    """What a directory holds."""

    host: str  # where it is
    place: str  # the directory that it is in, such as `/home`
    name: str  # its name there
    owner: str  # whose it is
    bytes: int  # on the disk; 0 if it was not measured
    newest: int  # when something in it was last changed, in seconds since 1970; 0 if it was not measured
    state: str  # empty, `partly` (some could not be read) or `late` (not measured in time)


@dataclass(frozen=True)
class Directories:
    """What homes and scratch directories hold."""

    measured: int  # when, in seconds since 1970
    held: tuple[Held, ...]  # the directories; those first that hold most
    lost: Mapping[str, str]  # hosts that did not answer, each with the reason
    more: int = 0  # how many directories were left out because a host has too many


def places(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Which directories to look below, by host: shared homes once, where they are; others on every host."""
    found: dict[str, list[str]] = {}
    export = next((one for one in cluster.exports if one.mount is not None and one.mount == cluster.homes), None)
    if export is not None:
        found[export.host] = [export.path]
    elif cluster.homes is not None:
        found[cluster.controller] = [cluster.homes]
    else:
        found.update({host: [HOME] for host in cluster.hosts})
    if cluster.scratch is not None:
        for node in cluster.compute_nodes:
            if cluster.scratch.of_node(node):
                found.setdefault(node, []).append(cluster.scratch.path)
    return {host: tuple(paths) for host, paths in found.items()}


def ask(cluster: Cluster, transport: Transport, seconds: int = SECONDS) -> Directories:
    """Measure the directories on all hosts that have some, in so many seconds on each; one request each."""
    asked = places(cluster)

    def measure(host: str) -> Mapping[str, Any]:
        request = {"op": "directory-sizes", "places": list(asked[host]), "seconds": seconds}
        found: Mapping[str, Any] = answer_value(host, transport.call(host, request), "directory_sizes")
        return found

    return collected(on_each(asked, measure))


def collected(answers: Iterable[tuple[str, Mapping[str, Any] | SlurmfabError]]) -> Directories:
    """The directories in the answers of hosts."""
    held: list[Held] = []
    lost: dict[str, str] = {}
    more = 0
    for host, answer in answers:
        if isinstance(answer, SlurmfabError):
            lost[host] = str(answer)
        else:
            held += [Held(host, *row) for row in answer["rows"]]
            more += answer["more"]
    held.sort(key=lambda one: (-one.bytes, one.host, one.place, one.name))
    return Directories(int(time.time()), tuple(held), lost, more)


def table(found: Directories, paint: Paint) -> list[str]:
    """The table, and what is missing in it."""
    lines = [paint("Homes and scratch directories", BOLD)]
    if found.held:
        header = ("HOST", "DIRECTORY", "OWNER", "HOLDS", "LAST CHANGE")
        shown = found.held[:MOST_ROWS]
        lines += colour_table(header, [cells(one) for one in shown], paint, [YELLOW * bool(one.state) for one in shown])
    else:
        lines.append("There are none.")
    if len(found.held) > MOST_ROWS:
        lines.append(f"… and {len(found.held) - MOST_ROWS} more; --json has them.")
    if found.more:
        lines.append(f"{found.more} further directories were not looked at, because there are too many on one host.")
    return [*lines, *(paint(f"{host}: {why}", YELLOW) for host, why in sorted(found.lost.items()))]


def cells(one: Held) -> tuple[str, ...]:
    """A directory's cells."""
    path = f"{one.place.rstrip('/')}/{one.name}"
    if one.state == LATE:
        return one.host, path, one.owner, STATES[LATE], "-"
    changed = time.strftime("%Y-%m-%d", time.localtime(one.newest)) if one.newest else "-"
    return one.host, path, one.owner, size(one.bytes) + STATES.get(one.state, ""), changed


def size(count: int) -> str:
    """Bytes with a unit.

    >>> size(2048), size(5 * 1024**4)
    ('2.0 KiB', '5.0 TiB')
    """
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:  # noqa: PLR2004
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{count} B"
