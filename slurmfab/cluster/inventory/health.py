"""The models of the programs that slurmd runs on compute nodes: health check, and scripts around jobs."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.base.paths import SLURM_SPOOL
from slurmfab.cluster.inventory.values import Model, check_amount, check_directory, written_as

_below_root = check_directory("/home")
_UNIT = re.compile(r"[A-Za-z0-9_.@-]+")
_LONGEST_INTERVAL = 65535  # HealthCheckInterval has 16 bits (Slurm's source)

_DISKS = dict.fromkeys(("/", "/tmp", "/var", SLURM_SPOOL), "3%")  # noqa: S108 - it is only looked at
_HOUR = 3600


def _check_path(path: str) -> str:
    return path if path == "/" else _below_root(path)


@written_as(_UNIT)
def _check_unit(unit: str) -> str:
    if not _UNIT.fullmatch(unit):
        raise ValueError(f'"{unit}" is not the name of a systemd unit such as ssh')
    return unit


Path = Annotated[str, AfterValidator(_check_path)]
Amount = Annotated[str, AfterValidator(check_amount("2G"))]
Unit = Annotated[str, AfterValidator(_check_unit)]


class Health(Model):
    """The health check of every compute node (HealthCheckProgram)."""

    interval: Annotated[
        int, Field(ge=1, le=_LONGEST_INTERVAL, description="Seconds between two checks (HealthCheckInterval).")
    ] = 300
    mounts: Annotated[tuple[Path, ...], Field(description="Mount points that must be mounted and respond.")] = ()
    disk: Annotated[dict[Path, Amount], Field(description="By path, least free space: 3% or 2G.")] = _DISKS
    memory: Annotated[bool, Field(description="Whether the RealMemory of slurm.conf must be present.")] = True
    gpus: Annotated[bool, Field(description="Whether GPUs must be present, without errors that need a reset.")] = True
    # if chrony runs
    clock: Annotated[int, Field(ge=0, le=_HOUR, description="Most seconds that the clock may be off; 0 for any.")] = 10
    daemons: Annotated[tuple[Unit, ...], Field(description="Systemd units that must run, in addition to munge.")] = ()


HealthOrNot = Annotated[
    Health | None,
    Field(description="Health check of the compute nodes; true for all defaults."),
]


def _directories(value: Any) -> Any:
    """Read a mapping of hostlists to directories as groups; a directory for all nodes stays as it is."""
    if not isinstance(value, dict):
        return value
    if not all(isinstance(one, str) and one for one in (*value.keys(), *value.values())):
        raise ValueError('it must be a directory, or a mapping such as {"cn[01-04]": prolog-gpu.d}')
    try:
        return tuple((frozenset(hostlist.expand(hosts)), directory) for hosts, directory in value.items())
    except HostlistError as error:
        raise ValueError(str(error)) from None


DirectoriesOfScripts = str | tuple[tuple[frozenset[str], str], ...] | None
"""A directory of scripts for all nodes, or one for each group of nodes: the names of its nodes, and the directory."""

_Directories = Annotated[
    DirectoriesOfScripts, BeforeValidator(_directories, json_schema_input_type=str | dict[str, str])
]
ScriptsBefore = Annotated[
    _Directories, Field(min_length=1, description="Directory of scripts before each job, or one by hostlist of nodes.")
]
ScriptsAfter = Annotated[
    _Directories, Field(min_length=1, description="Directory of scripts after each job, or one by hostlist of nodes.")
]


def directory_of(scripts: DirectoriesOfScripts, node: str) -> str | None:
    """The directory of scripts of a compute node; `None` if it has none."""
    if scripts is None or isinstance(scripts, str):
        return scripts
    return next((directory for hosts, directory in scripts if node in hosts), None)


def directories_of(scripts: DirectoriesOfScripts) -> tuple[str, ...]:
    """All directories of scripts, each once."""
    if scripts is None or isinstance(scripts, str):
        return (scripts,) if scripts else ()
    return tuple(dict.fromkeys(directory for _, directory in scripts))
