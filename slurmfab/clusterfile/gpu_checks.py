"""The model of checks of GPUs that the controller makes by itself."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.clusterfile import schedule
from slurmfab.clusterfile.model import Model

NEVER = "never"
_HOUR = 3600
_PROGRAM = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+-]+)+|[A-Za-z0-9_.+-]+")
_ARGUMENTS = re.compile(r"[A-Za-z0-9_.,=/+ -]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SLURM = ("SLURM_", "SRUN_", "SBATCH_", "PATH")
_A_WEEK = 7 * 24 * 60
_A_DAY = 24 * 60


def _check_program(program: str) -> str:
    if not _PROGRAM.fullmatch(program):
        raise ValueError(f'"{program}" is neither a name such as all_reduce_perf nor an absolute path of plain letters')
    return program


def _check_arguments(arguments: str) -> str:
    if not _ARGUMENTS.fullmatch(arguments):
        raise ValueError(f'"{arguments}" is more than words of plain letters, such as -b 512M -e 8G -f 2')
    if {"-g", "--ngpus", "-t", "--nthreads"} & set(arguments.split()):
        raise ValueError("-g and -t are slurmfab's: it takes all GPUs of a node")
    return arguments


def _check_speed(speed: float) -> float:
    if not 0 < speed < math.inf:
        raise ValueError(f"{speed:g} is no bandwidth; it is in GB/s and more than 0")
    return speed


def _check_when(when: str) -> str:
    return when if when == NEVER else schedule.check(when)


def _check_environment(environment: dict[str, str]) -> dict[str, str]:
    for name in environment:
        if not _VARIABLE.fullmatch(name) or name.startswith(_OF_SLURM):
            raise ValueError(f'"{name}" is no variable that can be set here, such as NCCL_SOCKET_IFNAME')
    return environment


Speed = Annotated[float, AfterValidator(_check_speed)]


ALL_TYPES = "*"
"""The key of a number that is for all types of GPUs."""


def _speeds(value: Any) -> Any:
    """Speeds by type, of which a single number is one for all."""
    return value if isinstance(value, dict) else {ALL_TYPES: value}


Speeds = Annotated[dict[str, Speed], BeforeValidator(_speeds, json_schema_input_type=float | dict[str, float])]


class GpuChecks(Model):
    """Measurements by nccl-tests on all nodes with GPUs, as jobs of low priority.

    Args:
        program: all_reduce_perf on the nodes: a name that is looked for, or its path.
        arguments: for it, without the number of GPUs.
        environment: variables for it.
        when: as for backups, or `never`: only when asked.
        min_busbw: GB/s within a node, by type of GPU.
        between_nodes: GB/s between two nodes, by type; `None` for no such measurement.
        mpi: how srun starts an MPI program, for the measurements between nodes.
        partition: where the jobs run; `None` for any that a node is in.
        qos: of the jobs.
        drain: whether nodes that fall short go out of service.
        wait: minutes that a job waits for a busy node.
        minutes: that a measurement may take.
        keep: how many runs the history holds.
    """

    program: Annotated[str, AfterValidator(_check_program), Field(description="all_reduce_perf: name or path.")] = (
        "all_reduce_perf"
    )
    arguments: Annotated[str, AfterValidator(_check_arguments), Field(description="Its arguments, but for -g.")] = (
        "-b 512M -e 8G -f 2"
    )
    environment: Annotated[
        dict[str, str],
        AfterValidator(_check_environment),
        Field(description="Variables for it, such as NCCL_SOCKET_IFNAME."),
    ] = {}
    when: Annotated[
        str, AfterValidator(_check_when), Field(description="hourly, daily, weekly, 03:30, Sun 03:30 or never.")
    ] = "daily"
    min_busbw: Annotated[Speeds, Field(description="Least bus bandwidth within a node, GB/s, by type of GPU.")] = {}
    between_nodes: Annotated[Speeds | None, Field(description="The same between two nodes; none: not measured.")] = None
    mpi: Annotated[
        Literal["pmix", "pmi2", "none"], Field(description="srun's way to start an MPI program between nodes.")
    ] = "pmix"
    partition: Annotated[str | None, Field(description="Partition of the jobs; none: any of the node's.")] = None
    qos: Annotated[str | None, Field(description="QOS of the jobs.")] = None
    drain: Annotated[bool, Field(description="Whether nodes that fall short go out of service.")] = True
    wait: Annotated[int, Field(ge=1, le=_A_WEEK, description="Minutes that a job waits for a busy node.")] = 120
    minutes: Annotated[int, Field(ge=1, le=_A_DAY, description="Minutes that a measurement may take.")] = 15
    keep: Annotated[int, Field(ge=1, le=10_000, description="How many runs the history holds.")] = 100

    @property
    def calendar(self) -> str:
        """When, as systemd says it; empty for never."""
        return "" if self.when == NEVER else schedule.calendar(self.when)

    @property
    def oldest(self) -> int:
        """Seconds that the last run may be over; 0 where there is no timer."""
        if self.when == NEVER:
            return 0
        return 2 * schedule.period(self.when) + _HOUR + 60 * self.wait


GpuChecksOrNot = Annotated[
    GpuChecks | None, Field(description="Measurements of all GPUs that the controller makes by itself.")
]
"""The key `gpu_checks`."""
