"""The switches that a host sees: by LLDP on its interfaces, and of a whole InfiniBand fabric by ibnetdiscover.

Both are names that switches give themselves, so they are answers to be shown, and nothing is done by them.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

LLDP_SECONDS, FABRIC_SECONDS = 20.0, 120.0
LLDPCTL = ("lldpctl", "-f", "json0")  # lldpctl(8): the JSON in which every value is a list
NETWORKCTL = ("networkctl", "lldp", "--json=short")  # networkctl(1), from systemd 254 on
IBNETDISCOVER = ("ibnetdiscover",)

_SWITCH = re.compile(r'^Switch\s+\d+\s+"(S-[0-9a-fA-F]+)"\s*#\s*"([^"]*)"', re.M)
_PORT = re.compile(r'^\[\d+\](?:\[\w+\])?\s+"([HS]-[0-9a-fA-F]+)"\[\d+\](?:\([0-9a-fA-F]+\))?\s*#\s*"([^"]*)"', re.M)


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What the host sees.

    `request`: `fabric`, whether ibnetdiscover is asked, which queries each switch. Returns `lldp`: pairs of interface
    and switch; `switches`: pairs of ID and name; `links`: for each port in use of a switch, its ID, and ID and name of
    what is connected; and `has_tool`, whether there is ibnetdiscover.
    """
    text = printed(context, IBNETDISCOVER, FABRIC_SECONDS) if request.get("fabric") else ""
    switches, links = parse_fabric(text)
    found = parse_lldpctl(printed(context, LLDPCTL, LLDP_SECONDS))
    found = found or parse_networkctl(printed(context, NETWORKCTL, LLDP_SECONDS))
    return {"has_tool": has_tool(), "lldp": found, "switches": switches, "links": links}


def has_tool() -> bool:
    """Whether ibnetdiscover is installed, as the agent finds programs."""
    return any(os.access("%s/%s" % (folder, IBNETDISCOVER[0]), os.X_OK) for folder in SYSTEM_PATH.split(":"))


def printed(context: Context, command: Tuple[str, ...], seconds: float) -> str:
    """What a program prints; empty where it is missing or fails."""
    try:
        done = context.run(command, seconds=seconds)
    except ResourceFailed:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def parse_lldpctl(text: str) -> List[Tuple[str, str]]:
    """Interface and system name of each neighbour that has one, in the output of `lldpctl -f json0`."""
    found = []
    for section in listed(loaded(text), "lldp"):
        for interface in listed(section, "interface"):
            names = [name.get("value") for chassis in listed(interface, "chassis") for name in listed(chassis, "name")]
            found += [(str(interface.get("name")), name) for name in names if isinstance(name, str) and name]
    return found


def parse_networkctl(text: str) -> List[Tuple[str, str]]:
    """The same in the output of `networkctl lldp --json=short`."""
    found = []
    for interface in listed(loaded(text), "Neighbors"):
        names = [one.get("SystemName") for one in listed(interface, "Neighbors")]
        found += [(str(interface.get("InterfaceName")), name) for name in names if isinstance(name, str) and name]
    return found


def loaded(text: str) -> Any:
    """A JSON value; `None` where the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def listed(value: Any, name: str) -> Iterator[Dict[str, Any]]:
    """Yield the objects in a list of an object."""
    items = value.get(name) if isinstance(value, dict) else None
    yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))


def parse_fabric(text: str) -> Tuple[List[Tuple[str, str]], List[Tuple[str, str, str]]]:
    """The switches and their ports in the output of ibnetdiscover(8): ID and name; ID, peer's ID and peer's name."""
    switches: List[Tuple[str, str]] = []
    links: List[Tuple[str, str, str]] = []
    for block in re.split(r"\n\s*\n", text):
        found = _SWITCH.search(block)
        if found:
            switches.append((found[1], found[2]))
            links += [(found[1], *port) for port in _PORT.findall(block)]
    return switches, links
