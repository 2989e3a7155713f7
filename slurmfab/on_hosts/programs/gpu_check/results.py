"""Planned measurements and their results."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from slurmfab.on_hosts.programs.gpu_check.nccl_output import Measurement, parse
from slurmfab.on_hosts.programs.gpu_check.nodes import GpuNode

JOB_PREFIX = "slurmfab-gpu-check-"  # prefix of the names of the check's jobs
NOT_FOUND = 127  # the exit code for a missing program


class PlannedMeasurement(NamedTuple):
    """A measurement to make."""

    nodes: Tuple[GpuNode, ...]  # one node, or two for the network between them
    partition: str
    minimum: Optional[float]  # GB/s, `None` for no threshold
    is_reserved: bool = False  # whether the nodes are reserved for this check
    first: Optional[Measurement] = None  # the first measurement, if it fell short

    @property
    def names(self) -> Tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self.nodes)

    @property
    def job_name(self) -> str:
        """The job's name."""
        return JOB_PREFIX + "+".join(self.names)


class Result(NamedTuple):
    """The result of a measurement."""

    planned: PlannedMeasurement
    measured: Optional[Measurement]  # the figures; `None` if nothing was measured
    why: str  # why nothing was measured, or in what the nodes fall short; empty if they passed
    seconds: float

    @property
    def falls_short(self) -> bool:
        """Whether the nodes were measured and did not pass."""
        return self.measured is not None and bool(self.why)


def judge_output(
    planned: PlannedMeasurement, output: str, code: int, minutes: int
) -> Tuple[Optional[Measurement], str]:
    """The figures of a measurement's output, if any, and why not, or how they fall short; or empty."""
    if "DUE TO TIME LIMIT" in output:
        return Measurement(0.0, 0.0, 0, 0, checked=False, failure="it hangs"), "does not end within %d min" % minutes
    if "CANCELLED AT" in output or "Force Terminated" in output:
        return None, "its job was cancelled" if "PREEMPTION" not in output else "its job was preempted"
    measured = parse(output)
    if measured is None:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        if code == NOT_FOUND and lines:
            return None, "there is %s: install nccl-tests, or set gpu_checks.program" % lines[0]
        errors = [line for line in lines if "error" in line] or lines[-1:]
        return None, "its job ended with exit code %d: %s" % (code, (errors[0] if errors else "no output")[:300])
    return measured, shortcoming(planned, measured)


def shortcoming(planned: PlannedMeasurement, measured: Measurement) -> str:
    """In what the nodes fall short; empty if they passed."""
    if measured.failure:
        return "fails: %s" % measured.failure
    if measured.wrong:
        return "has %d wrong value%s" % (measured.wrong, "s" if measured.wrong > 1 else "")
    if planned.minimum is not None and measured.busbw < planned.minimum:
        return "%s GB/s, wanted %s" % (figure(measured.busbw), figure(planned.minimum))
    return ""


def figure(speed: float) -> str:
    """A bandwidth with at most one decimal: `98.2`, and `120` for 120.0."""
    return ("%.1f" % speed).removesuffix(".0")
