"""The model of figures for Prometheus (key `monitoring`)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.base.ip_addresses import parsed
from slurmfab.cluster.inventory.values import Model, short_for, written_as

CLUSTER = "cluster"  # as an address: the host's own one by which the other hosts reach it

EXPORTER_PORT, PROMETHEUS_PORT = 9100, 9090

_LOWEST_PORT = 1024
_RETENTION = re.compile(r"[1-9][0-9]{0,4}[hdwy]")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
_SHORTEST, _LONGEST = 10, 300
"""Seconds between two collections: shorter is work for slurmctld, and after five minutes Prometheus forgets a value."""


def _address(text: str) -> str:
    try:
        return text if text == CLUSTER else str(parsed(text))
    except ValueError:
        raise ValueError(f'"{text}" is not an IP address such as 10.0.0.1, nor the word {CLUSTER}') from None


def _listen(value: Any) -> Any:
    """One address for all hosts, or addresses by host; hostlists on both sides are zipped."""
    if isinstance(value, str):
        return _address(value)
    if not isinstance(value, dict) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise ValueError(f"it must be {CLUSTER}, an IP address, or a mapping from hosts to addresses")
    found: dict[str, str] = {}
    for names, addresses in value.items():
        try:
            zipped = hostlist.zip_hostlists(names, addresses)
        except HostlistError as error:
            raise ValueError(str(error)) from None
        twice = next((host for host in zipped if host in found), None)
        if twice is not None:
            raise ValueError(f'"{twice}" is there twice')
        found.update({host: _address(address) for host, address in zipped.items()})
    return found


@written_as(_RETENTION)
def _check_retention(text: str) -> str:
    if not _RETENTION.fullmatch(text):
        raise ValueError(f'"{text}" is not a time such as 48h, 30d, 8w or 1y')
    return text


_Port = Annotated[int, Field(ge=_LOWEST_PORT, le=HIGHEST_PORT)]
_Seconds = Annotated[int, Field(ge=_SHORTEST, le=_LONGEST)]


class Prometheus(Model):
    """Prometheus itself, on a host of the cluster."""

    host: Annotated[str, Field(min_length=1, description="The host of the cluster with Prometheus.")]
    listen: Annotated[str, AfterValidator(_address), Field(description="IP address to listen on, or cluster.")] = (
        CLUSTER
    )
    port: Annotated[_Port, Field(description="TCP port.")] = PROMETHEUS_PORT
    retention: Annotated[
        str, AfterValidator(_check_retention), Field(description="How long figures are kept, such as 30d.")
    ] = "30d"
    every: Annotated[_Seconds, Field(description="Seconds between two scrapes.")] = 15

    @property
    def days(self) -> int:
        """How many days it keeps figures, at least 1."""
        return max(1, int(self.retention[:-1]) * _HOURS[self.retention[-1]] // _HOURS["d"])


class Monitoring(Model):
    """Figures of hosts and of Slurm for Prometheus."""

    listen: Annotated[
        str | dict[str, str],
        BeforeValidator(_listen, json_schema_input_type=str | dict[str, str]),
        Field(description="Where exporters listen: cluster, an IP address, or addresses by host."),
    ] = CLUSTER
    port: Annotated[_Port, Field(description="TCP port of the exporters.")] = EXPORTER_PORT
    every: Annotated[_Seconds, Field(description="Seconds between two collections of Slurm's figures.")] = 30
    # where the installed version can
    openmetrics: Annotated[
        bool, Field(description="Whether slurmctld tells figures itself (MetricsType; Slurm 25.11 and later).")
    ] = False
    prometheus: Annotated[
        Annotated[Prometheus, BeforeValidator(short_for("host"), json_schema_input_type=str | Prometheus)] | None,
        Field(description="The host with Prometheus itself, or a mapping."),
    ] = None

    def listens_on(self, host: str) -> str:
        """Where the exporter of a host listens: an IP address, or `cluster`."""
        return self.listen if isinstance(self.listen, str) else self.listen.get(host, CLUSTER)


MonitoringOrNot = Annotated[
    Monitoring | None,
    Field(description="Figures of hosts and of Slurm for Prometheus: true, or a mapping."),
]
