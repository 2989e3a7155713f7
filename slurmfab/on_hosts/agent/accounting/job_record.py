"""A job as sacct's records tell it."""

from __future__ import annotations

from typing import Mapping, NamedTuple


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
