"""The model of nodes that Slurm switches off while they are idle, and on again for jobs (key `power`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.cluster.inventory.values import HostNames, Model, check_directory, host_names, is_address, written_as

NODE = "{node}"  # what stands for a node's name in the pattern of addresses

_TIME = re.compile(r"(\d{1,7})([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_USER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_TIMEOUT = 65533
"""SuspendTimeout and ResumeTimeout have 16 bits, and the two highest numbers mean "none" (Slurm's source)."""

_LONGEST_IDLE = 30 * 86400
_MOST_NODES = 65536


def seconds(text: str) -> int:
    """A time such as `90`, `90s`, `30m`, `2h` or `1d` in seconds.

    >>> seconds("30m"), seconds("90")
    (1800, 90)

    Raises:
        ValueError: the text is no such time.
    """
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f'"{text}" is not a time such as 90s, 30m, 2h or 1d')
    return int(found[1]) * _UNITS[found[2]]


@written_as(_TIME)
def time_value(value: Any) -> Any:
    """A number of seconds, or a text that `seconds` reads."""
    return seconds(value) if isinstance(value, str) else value


Seconds = Annotated[int, BeforeValidator(time_value, json_schema_input_type=int | str)]


def _keep(value: Any) -> Any:
    """A number of nodes, or their names."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= _MOST_NODES:
            raise ValueError(f"{value} is not a number of nodes")
        return value
    return host_names(value)


def _check_mac(mac: str) -> str:
    text = mac.lower().replace("-", ":")
    if not _MAC.fullmatch(text):
        raise ValueError(f'"{mac}" is not a MAC address such as 52:54:00:12:34:56')
    return text


@written_as(_USER)
def _check_user(user: str) -> str:
    if not _USER.fullmatch(user) or user.startswith("-"):
        raise ValueError(f'"{user}" is not the name of a user of IPMI')
    return user


def _check_address(address: str) -> str:
    if not is_address(address):
        raise ValueError(f'"{address}" is neither an IP address nor a DNS name')
    return address


def _addresses(value: Any) -> Any:
    """Addresses by node; a pattern is for all nodes, and each hostlist is zipped with the addresses of its nodes."""
    if isinstance(value, str):
        if NODE not in value or not is_address(value.replace(NODE, "n1")):
            raise ValueError(
                f'"{value}" is neither a pattern such as {NODE}-ipmi nor a mapping from nodes to addresses'
            )
        return value
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError(f"it must be a pattern such as {NODE}-ipmi, or a mapping from nodes to addresses")
    found: dict[str, str] = {}
    for names, addresses in value.items():
        for node, address in _zipped(names, addresses):
            if node in found:
                raise ValueError(f'"{node}" is there twice')
            found[node] = _check_address(address)
    return found


def _zipped(names: str, addresses: str) -> Iterable[tuple[str, str]]:
    try:
        return hostlist.zip_hostlists(names, addresses).items()
    except HostlistError as error:
        raise ValueError(str(error)) from None


_HOSTS_IN_FILE = str | list[str]
Nodes = Annotated[HostNames, Field(min_length=1)]
Mac = Annotated[str, AfterValidator(_check_mac)]
PathOnControllers = Annotated[str, AfterValidator(check_directory("/opt/site/power-off"))]


class Ipmi(Model):
    """Nodes that are switched by their IPMI controllers (BMC), with `ipmitool -I lanplus`."""

    address: Annotated[
        str | dict[str, str],
        BeforeValidator(_addresses, json_schema_input_type=str | dict[str, str]),
        Field(description="Pattern such as {node}-ipmi, or address by node."),
    ]
    user: Annotated[str, AfterValidator(_check_user), Field(description="User of the IPMI controllers.")] = "ADMIN"
    password_file: Annotated[str, Field(min_length=1, description="File here with the password, mode 600.")]

    def address_of(self, node: str) -> str:
        """The address of a node's IPMI controller; empty if the cluster file names none."""
        if isinstance(self.address, str):
            return self.address.replace(NODE, node)
        return self.address.get(node, "")


class WakeOnLan(Model):
    """Nodes that are switched on by a magic packet, and off by `systemctl poweroff`."""

    mac: Annotated[dict[str, Mac], Field(min_length=1, description="MAC address by node.")]
    broadcast: Annotated[
        str, AfterValidator(_check_address), Field(description="Broadcast address of the nodes' network.")
    ] = "255.255.255.255"


class OwnCommands(Model):
    """Nodes that are switched by programs of the site; each is called with the name of one node."""

    suspend: Annotated[PathOnControllers, Field(description="Program that switches a node off.")]  # on the controllers
    resume: Annotated[PathOnControllers, Field(description="Program that switches a node on.")]


class How(Model):
    """How nodes are switched: exactly one of the three."""

    ipmi: Annotated[Ipmi | None, Field(description="IPMI controllers.")] = None
    wake_on_lan: Annotated[WakeOnLan | None, Field(description="Wake-on-LAN, and SSH to switch off.")] = None
    command: Annotated[OwnCommands | None, Field(description="Programs of the site on the controllers.")] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> How:
        if sum(one is not None for one in (self.ipmi, self.wake_on_lan, self.command)) != 1:
            raise ValueError("it needs exactly one of ipmi, wake_on_lan and command")
        return self


class Power(Model):
    """Nodes that may sleep: switched off after some time without jobs, and on again for the next job."""

    nodes: Annotated[Nodes, Field(description="Hostlist of the nodes that may sleep.")]
    suspend_after: Annotated[
        Seconds,
        Field(ge=1, le=_LONGEST_IDLE, description="Time without jobs until a node is switched off: 30m."),
    ] = 1800
    keep: Annotated[
        int | tuple[str, ...],
        BeforeValidator(_keep, json_schema_input_type=int | str | list[str]),
        Field(description="Number of nodes in service that stay on, or a hostlist of those that always do."),
    ] = 0
    rate: Annotated[int, Field(ge=1, le=_MOST_NODES, description="Most nodes switched per minute.")] = 60
    suspend_timeout: Annotated[
        Seconds, Field(ge=1, le=_LONGEST_TIMEOUT, description="Time until a node is off (SuspendTimeout).")
    ] = 120
    resume_timeout: Annotated[
        Seconds, Field(ge=1, le=_LONGEST_TIMEOUT, description="Time until a node answers again (ResumeTimeout).")
    ] = 900
    how: Annotated[How, Field(description="ipmi, wake_on_lan or command.")]

    @property
    def always_on(self) -> tuple[str, ...]:
        """The nodes that `keep` names; empty if it is a number."""
        return () if isinstance(self.keep, int) else self.keep

    @property
    def least_on(self) -> int:
        """The number of nodes in service that stay on."""
        return self.keep if isinstance(self.keep, int) else 0

    @property
    def check_every(self) -> int:
        """Seconds between two looks at the nodes: often enough for `suspend_after`, at most a minute."""
        return max(2, min(60, self.suspend_after // 2))
