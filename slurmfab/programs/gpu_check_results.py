"""Measurements that are to be made, and what became of them."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from slurmfab.programs.gpu_check_nodes import GpuNode
from slurmfab.programs.gpu_check_queue import NAME
from slurmfab.programs.nccl_output import Measurement, parse

MISSING = 127
"""The exit code for a program that is not there."""


class Wish(NamedTuple):
    """A measurement that is to be made.

    Args:
        nodes: one, or two for what is between them.
        partition: where the job runs.
        minimum: GB/s, `None` where any will do.
        is_reserved: whether the nodes are kept for this check.
        first: what a first measurement has found that fell short.
    """

    nodes: Tuple[GpuNode, ...]
    partition: str
    minimum: Optional[float]
    is_reserved: bool = False
    first: Optional[Measurement] = None

    @property
    def names(self) -> Tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self.nodes)

    @property
    def job_name(self) -> str:
        """The name of its job."""
        return NAME + "+".join(self.names)


class Result(NamedTuple):
    """What became of a measurement.

    Args:
        wish: what was to be measured.
        measured: what was; `None` where nothing was.
        why: where nothing was measured, the reason; where the nodes fall short, in what; else empty.
        seconds: from sending the job to its end.
    """

    wish: Wish
    measured: Optional[Measurement]
    why: str
    seconds: float

    @property
    def falls_short(self) -> bool:
        """Whether the nodes were measured and are not as wanted."""
        return self.measured is not None and bool(self.why)


def judged(wish: Wish, output: str, code: int, minutes: int) -> Tuple[Optional[Measurement], str]:
    """What a job has measured, and what is wrong with it or with the nodes; empty when they are as wanted.

    Args:
        wish: what was to be measured.
        output: of srun and the program.
        code: srun's exit code.
        minutes: the job's time limit.
    """
    if "DUE TO TIME LIMIT" in output:
        return Measurement(0.0, 0.0, 0, 0, checked=False, failure="it hangs"), "does not end within %d min" % minutes
    if "CANCELLED AT" in output or "Force Terminated" in output:
        return None, "somebody ended its job" if "PREEMPTION" not in output else "gave way by preemption"
    measured = parse(output)
    if measured is None:
        words = [line.strip() for line in output.splitlines() if line.strip()]
        if code == MISSING and words:
            return None, "there is %s: install nccl-tests, or say where it is: gpu_checks.program" % words[0]
        errors = [line for line in words if "error" in line] or words[-1:]
        return None, "its job ended with exit code %d: %s" % (code, (errors[0] if errors else "without a word")[:300])
    return measured, shortcoming(wish, measured)


def shortcoming(wish: Wish, measured: Measurement) -> str:
    """In what nodes fall short; empty when they are as wanted."""
    if measured.failure:
        return "fails: %s" % measured.failure
    if measured.wrong:
        return "has %d wrong value%s" % (measured.wrong, "s" if measured.wrong > 1 else "")
    if wish.minimum is not None and measured.busbw < wish.minimum:
        return "%s GB/s, wanted %s" % (figure(measured.busbw), figure(wish.minimum))
    return ""


def figure(speed: float) -> str:
    """A bandwidth as people read it: `98.2`, and `120` for 120.0."""
    return ("%.1f" % speed).removesuffix(".0")
