"""The acceptance jobs that slurmfab brings along: what each measures, and how it is started by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_NUMBER = r"([0-9.eE+-]+)"


@dataclass(frozen=True)
class ShippedFigure:
    """A figure in the output of a shipped job."""

    pattern: str  # regular expression with one group, for one line
    unit: str
    better: Literal["higher", "lower"] = "higher"  # whether a `higher` or a `lower` figure is better


@dataclass(frozen=True)
class ShippedJob:
    """A job whose script comes with slurmfab, as `slurmfab/commands/accept/shipped/NAME`."""

    figures: Mapping[str, ShippedFigure]  # its figures, by name
    packages: tuple[str, ...] = ()  # Debian packages that nodes need for it, of which the last one has the program
    tasks: int | Literal["cores"] = 1  # tasks on each node; `cores` for one on each core
    gpus: int | Literal["all"] = 0  # GPUs on each node; `all` for all that Slurm has there
    nodes: Literal["each", "all"] = "each"  # `each` for one job on each node, `all` for one job on all of them
    at_once: int = 64
    minutes: int = 30


SHIPPED: Mapping[str, ShippedJob] = {
    "memory": ShippedJob({"copy": ShippedFigure(rf"^copy: {_NUMBER} GB/s", "GB/s")}, minutes=10),
    "ring": ShippedJob(
        {
            "latency": ShippedFigure(rf"^latency: {_NUMBER} us", "us", "lower"),
            "bandwidth": ShippedFigure(rf"^bandwidth: {_NUMBER} GB/s", "GB/s"),
        },
        packages=("openmpi-bin",),
        nodes="all",
        minutes=10,
    ),
    "hpcc": ShippedJob(
        {
            "hpl": ShippedFigure(rf"^HPL_Tflops={_NUMBER}", "TFLOP/s"),
            "stream": ShippedFigure(rf"^StarSTREAM_Triad={_NUMBER}", "GB/s"),
            "ring_latency": ShippedFigure(rf"^RandomlyOrderedRingLatency_usec={_NUMBER}", "us", "lower"),
            "ring_bandwidth": ShippedFigure(rf"^RandomlyOrderedRingBandwidth_GBytes={_NUMBER}", "GB/s"),
        },
        packages=("openmpi-bin", "libopenblas0-pthread", "hpcc"),
        tasks="cores",
        nodes="all",
        minutes=60,
    ),
    "fio": ShippedJob(
        {
            "write": ShippedFigure(rf"^write: {_NUMBER} MB/s", "MB/s"),
            "read": ShippedFigure(rf"^read: {_NUMBER} MB/s", "MB/s"),
            "random_write": ShippedFigure(rf"^random_write: .*, {_NUMBER} IOPS", "IOPS"),
            "random_read": ShippedFigure(rf"^random_read: .*, {_NUMBER} IOPS", "IOPS"),
        },
        packages=("fio",),
        at_once=1,
    ),
    "nccl": ShippedJob(
        {
            "busbw": ShippedFigure(rf"^ *[0-9]+ +[0-9]+ +float +sum +-1 +\S+ +\S+ +{_NUMBER}", "GB/s"),
            "average": ShippedFigure(rf"^# Avg bus bandwidth *: {_NUMBER}", "GB/s"),
        },
        gpus="all",
    ),
}
"""The shipped jobs, by name. The bandwidth of `nccl` is that of the largest message, which comes last."""
