"""Jobs that hold GPUs and do not use them, as far as Slurm can tell.

Slurm sees how busy GPUs are only with NVML or ROCm SMI on the nodes, and with gres/gpuutil in AccountingStorageTRES. It
keeps the highest use that it saw at any moment, and no average: so a job counts as idle only if no look ever saw its
GPUs busy. Without that, CPU time tells something: whoever drives a GPU needs some, so a job with hardly any did not.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from slurmfab.on_hosts.agent.accounting.job_record import Record, amounts
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

IDLE_FIELDS = ("job", "user", "account", "partition", "gpus", "gpu_seconds", "evidence", "running")

MOST_LISTED = 50  # the most jobs that an answer lists of a kind
MOST_ASKED = 200  # the most running jobs whose nodes are asked; those with the most GPU seconds
STEPS_SECONDS = 60.0  # time limit of the question to the nodes
HARDLY_ANY = 0.01  # the part of one CPU's time below which a job's processes did not drive a GPU
GPU_USE, CPU_TIME = "gpuutil", "cputime"  # what tells that GPUs are idle


SEEN = ("cpu", "mem", "gres/gpuutil")  # what of the use of steps tells something here


class Evidence(NamedTuple):
    """What the steps of a job tell about its use."""

    memory: float  # MiB of the step that used most; 0 if Slurm has not seen any
    gpu_peak: float  # the highest share of a GPU that Slurm saw in use, in percent; -1 if it did not look
    cpu_used: float  # seconds of CPU time

    @classmethod
    def of(cls, steps: Iterable[Tuple[str, str]]) -> Evidence:
        """The evidence in TRESUsageInMax and TRESUsageInTot of each step."""
        memory, peak, cpu = 0.0, -1.0, 0.0
        for most, total in steps:
            highest, whole = amounts(most, SEEN), amounts(total, SEEN)
            memory = max(memory, highest.get("mem", 0.0), whole.get("mem", 0.0))
            peak = max(peak, highest.get("gres/gpuutil", -1.0), whole.get("gres/gpuutil", -1.0))
            cpu += whole.get("cpu", 0.0)
        return cls(memory, peak, cpu)


def idle_row(job: Record, cpu_used: float, gpu_peak: float, *, is_running: bool) -> List[Tuple[Any, ...]]:
    """The row of a job that held GPUs idle, else none, by seconds of CPU time and the peak (see `Evidence`)."""
    if gpu_peak > 0 or (gpu_peak < 0 and cpu_used > job.whole * HARDLY_ANY):
        return []
    evidence = CPU_TIME if gpu_peak < 0 else GPU_USE
    return [(job.job, job.user, job.account, job.partition, job.gpus, job.gpus * job.clipped, evidence, is_running)]


def largest(rows: List[Tuple[Any, ...]]) -> List[Tuple[Any, ...]]:
    """The rows of the jobs that held most."""
    return sorted(rows, key=lambda one: (-one[IDLE_FIELDS.index("gpu_seconds")], one[0]))[:MOST_LISTED]


def among_running(jobs: List[Record], context: Context) -> List[Tuple[Any, ...]]:
    """The rows of running jobs that hold GPUs idle, from what their nodes say; none if these do not answer."""
    known = (one for one in jobs if one.state == "RUNNING" and commands.is_job_id(one.number))
    asked = sorted(known, key=lambda one: -one.gpus * one.clipped)[:MOST_ASKED]
    if not asked:
        return []
    try:
        shown = context.run(commands.use_by_steps(one.number for one in asked), seconds=STEPS_SECONDS)
    except ResourceFailed:
        return []
    steps: Dict[str, Dict[str, Tuple[str, str]]] = {}
    for row in (line.split("|") for line in shown.stdout.decode(errors="replace").split("\n")):
        if len(row) == 3:  # noqa: PLR2004
            # A step is told again for each task of an array that is asked about.
            steps.setdefault(row[0].partition(".")[0], {})[row[0]] = (row[1], row[2])
    rows: List[Tuple[Any, ...]] = []
    for one in asked:
        if one.number in steps:
            evidence = Evidence.of(steps[one.number].values())
            rows += idle_row(one, evidence.cpu_used, evidence.gpu_peak, is_running=True)
    return rows
