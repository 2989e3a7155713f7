"""The models of scheduled GPU measurements (`gpu_checks`), and of jobs that leave GPUs idle (`idle_gpus`)."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.power import Seconds
from slurmfab.cluster.inventory.values import Model, check_schedule, period, systemd_calendar, written_as

_DAY = 86400
_LEAST = 600  # seconds: nodes repeat what they saw every 4 minutes, and the controller looks every 5


class IdleGpus(Model):
    """Jobs that hold NVIDIA GPUs, and that the driver never saw use them."""

    # seconds
    after: Annotated[
        Seconds, Field(ge=_LEAST, le=30 * _DAY, description="Time without work on any of a job's GPUs: 2h.")
    ] = 7200
    mail: Annotated[Literal["user", "nobody"], Field(description="Who is told by mail.")] = "user"
    then: Annotated[
        Literal["nothing", "requeue", "cancel"], Field(description="What becomes of the job after `grace`.")
    ] = "nothing"
    # seconds
    grace: Annotated[Seconds, Field(ge=_LEAST, le=30 * _DAY, description="Time from the mail to `then`.")] = 1800
    spare: Annotated[tuple[str, ...], Field(description="Users, accounts and QOS whose jobs are left alone.")] = ()
    partitions: Annotated[tuple[str, ...], Field(description="The partitions that this is for; all by default.")] = ()


NEVER = "never"
_HOUR = 3600
_PROGRAM = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+-]+)+|[A-Za-z0-9_.+-]+")
_ARGUMENTS = re.compile(r"[A-Za-z0-9_.,=/+ -]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SLURM = ("SLURM_", "SRUN_", "SBATCH_", "PATH")
_A_WEEK = 7 * 24 * 60
_A_DAY = 24 * 60


@written_as(_PROGRAM)
def _check_program(program: str) -> str:
    if not _PROGRAM.fullmatch(program):
        raise ValueError(
            f'"{program}" is neither a name such as all_reduce_perf nor an absolute path of letters, digits and _ . + -'
        )
    return program


@written_as(_ARGUMENTS)
def _check_arguments(arguments: str) -> str:
    if not _ARGUMENTS.fullmatch(arguments):
        raise ValueError(f'"{arguments}" has characters that are not allowed; write words such as -b 512M -e 8G -f 2')
    if {"-g", "--ngpus", "-t", "--nthreads"} & set(arguments.split()):
        raise ValueError("slurmfab sets -g and -t itself: it measures all GPUs of a node")
    return arguments


def _check_speed(speed: float) -> float:
    if not 0 < speed < math.inf:
        raise ValueError(f"{speed:g} is not a bandwidth; write GB/s, more than 0")
    return speed


def _check_when(when: str) -> str:
    return when if when == NEVER else check_schedule(when)


def _check_environment(environment: dict[str, str]) -> dict[str, str]:
    for name in environment:
        if not _VARIABLE.fullmatch(name) or name.startswith(_OF_SLURM):
            raise ValueError(f'"{name}" is not a variable that can be set here, such as NCCL_SOCKET_IFNAME')
    return environment


Speed = Annotated[float, AfterValidator(_check_speed)]


ALL_TYPES = "*"  # the key of a bandwidth for all types of GPUs


def _speeds(value: Any) -> Any:
    """Bandwidths by GPU type; a single number is for all types."""
    return value if isinstance(value, dict) else {ALL_TYPES: value}


Speeds = Annotated[dict[str, Speed], BeforeValidator(_speeds, json_schema_input_type=float | dict[str, float])]


class GpuChecks(Model):
    """Measurements by nccl-tests on all nodes with GPUs, as jobs of low priority."""

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
    # `never`: only on request
    when: Annotated[
        str, AfterValidator(_check_when), Field(description="hourly, daily, weekly, 03:30, Sun 03:30 or never.")
    ] = "daily"
    min_busbw: Annotated[Speeds, Field(description="Least bus bandwidth within a node, GB/s, by type of GPU.")] = {}
    # `None` for no such measurement
    between_nodes: Annotated[Speeds | None, Field(description="The same between two nodes; no default.")] = None
    mpi: Annotated[
        Literal["pmix", "pmi2", "none"], Field(description="How srun starts an MPI program between nodes.")
    ] = "pmix"
    # `None` for slurmfab's own
    partition: Annotated[str | None, Field(description="Partition of the jobs; a hidden one by default.")] = None
    qos: Annotated[str | None, Field(description="QOS of the jobs.")] = None
    drain: Annotated[bool, Field(description="Whether nodes below the least bandwidth are drained.")] = True
    wait: Annotated[int, Field(ge=1, le=_A_WEEK, description="Minutes that a job waits for a busy node.")] = 120
    minutes: Annotated[int, Field(ge=1, le=_A_DAY, description="Time limit of a measurement in minutes.")] = 15
    keep: Annotated[int, Field(ge=1, le=10_000, description="Number of runs in the history.")] = 100

    @property
    def calendar(self) -> str:
        """The schedule as a calendar event of systemd (systemd.time(7)); empty for `never`."""
        return "" if self.when == NEVER else systemd_calendar(self.when)

    @property
    def oldest(self) -> int:
        """The highest age of the last run, in seconds; 0 without a schedule."""
        if self.when == NEVER:
            return 0
        return 2 * period(self.when) + _HOUR + 60 * self.wait
