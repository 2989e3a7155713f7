"""What each compute node's slurmd runs for the cluster: the model of its health check, and scripts around jobs."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.clusterfile import values
from slurmfab.clusterfile.model import Model

_below_root = values.directory("/home")
_UNIT = re.compile(r"[A-Za-z0-9_.@-]+")
_LONGEST_INTERVAL = 65535
"""HealthCheckInterval has 16 bits (Slurm's source)."""

SPOOL = "/var/lib/slurm/slurmd"
_DISKS = dict.fromkeys(("/", "/tmp", "/var", SPOOL), "3%")  # noqa: S108 - it is only looked at
_HOUR = 3600


def _check_path(path: str) -> str:
    return path if path == "/" else _below_root(path)


def _check_unit(unit: str) -> str:
    if not _UNIT.fullmatch(unit):
        raise ValueError(f'"{unit}" is no name of a unit of systemd, such as ssh')
    return unit


Path = Annotated[str, AfterValidator(_check_path)]
Amount = Annotated[str, AfterValidator(values.amount("2G"))]
Unit = Annotated[str, AfterValidator(_check_unit)]


class Health(Model):
    """What is looked at on every compute node, again and again, and with what measure.

    Args:
        interval: seconds between two looks.
        mounts: paths at which a file system has to be mounted that answers.
        disk: by path, how much of its file system has to be free, as a percentage, or in K, M, G or T.
        memory: whether the node must have the memory that slurm.conf promises.
        gpus: whether its GPUs must be there and without errors that take a reset.
        clock: seconds that its clock may be off, where chrony runs; 0 for any.
        daemons: units of systemd that must run, besides munge.
    """

    interval: Annotated[
        int, Field(ge=1, le=_LONGEST_INTERVAL, description="Seconds between two looks (HealthCheckInterval).")
    ] = 300
    mounts: Annotated[tuple[Path, ...], Field(description="Where a file system has to be mounted, and answer.")] = ()
    disk: Annotated[dict[Path, Amount], Field(description="By path, what has to be free: 3% or 2G.")] = _DISKS
    memory: Annotated[bool, Field(description="Whether the memory of slurm.conf has to be there.")] = True
    gpus: Annotated[bool, Field(description="Whether GPUs have to be there, and without grave errors.")] = True
    clock: Annotated[int, Field(ge=0, le=_HOUR, description="Seconds that the clock may be off; 0 for any.")] = 10
    daemons: Annotated[tuple[Unit, ...], Field(description="Units of systemd that must run, besides munge.")] = ()


def health_of(value: Any) -> Any:
    """`true` as an empty mapping, which means all defaults, and `false` as nothing at all."""
    return ({} if value else None) if isinstance(value, bool) else value


HealthOrNot = Annotated[
    Health | None,
    BeforeValidator(health_of, json_schema_input_type=Health | bool),
    Field(description="What every compute node looks at again and again; true for all defaults."),
]
ScriptsBefore = Annotated[
    str | None, Field(min_length=1, description="Directory of scripts that nodes run before each job.")
]
ScriptsAfter = Annotated[
    str | None, Field(min_length=1, description="Directory of scripts that nodes run after each job.")
]
