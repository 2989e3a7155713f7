"""A job as sacct's records tell it."""

from __future__ import annotations

import re
from typing import Container, Dict, Mapping, NamedTuple


class Record(NamedTuple):
    """A job's record, or one of a part of a job that was requeued or resized."""

    number: str  # of the job; a task of an array has its own
    job: str  # the id as squeue prints it
    # `user`, `account`, `partition`, `state`: as sacct prints them; the state is its first word.
    user: str
    account: str
    partition: str
    state: str
    # `eligible`, `start`, `end`: seconds since 1970; 0 for never.
    eligible: int
    start: int
    end: int
    whole: int  # seconds that it ran, also outside of the window
    clipped: int  # seconds that it ran within the window
    tres: Mapping[str, float]  # what it was given, or has asked for while it waits, by Slurm's name; memory in MiB
    cpu_used: float  # seconds of CPU time of all its processes
    memory: float  # MiB that the largest step used; 0 if Slurm has not seen any
    gpu_peak: float  # the highest share of a GPU that Slurm saw in use, in percent; -1 if it did not look

    @property
    def cpus(self) -> int:
        """How many CPUs it was given."""
        return int(self.tres.get("cpu", 0))

    @property
    def gpus(self) -> int:
        """How many GPUs it was given, as far as Slurm counts them."""
        return int(self.tres.get("gres/gpu", 0))


UNITS: Dict[str, float] = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}  # MiB by unit

MEMORY = ("mem", "gres/gpumem", "vmem")


def amounts(text: str, only: Container[str] = ()) -> Dict[str, float]:
    """The amounts in `cpu=4,mem=50M,gres/gpu:a100=2` (MiB, seconds), or of `only` these names."""
    found: Dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if only and name not in only:
            continue
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", value)
        if match and name in MEMORY:
            # Without a unit, memory in use is in bytes (sacct(1)).
            found[name] = float(match[1]) * UNITS[match[2]] if match[2] else float(match[1]) / 1024**2
        elif match:
            found[name] = float(match[1]) * (1024 ** "_KMGTP".index(match[2] or "_"))
        elif ":" in value:
            found[name] = seconds_of(value)
    return found


def seconds_of(text: str) -> float:
    """A time such as `1-02:03:04`, `02:03.456` or `00:00:05` in seconds; 0 for another text."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if not match:
        return 0.0
    days, hours, minutes = (int(one or 0) for one in match.groups()[:3])
    return days * 86400 + hours * 3600 + minutes * 60 + float(match[4])


def gpu_types(tres: Mapping[str, float]) -> str:
    """The types of GPUs among TRES: `a100`, `a100+v100`, `gpu` for GPUs without a type, or empty for no GPUs."""
    types = sorted(name.partition(":")[2] for name, count in tres.items() if name.startswith("gres/gpu:") and count)
    return "+".join(types) or ("gpu" if tres.get("gres/gpu") else "")
