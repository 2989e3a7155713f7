"""The jobs of a user, from what squeue prints."""

from __future__ import annotations

import re
import time
from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client.amounts import clock, gpus_of, seconds_of
from slurmfab.on_hosts.agent.client.commands import moment
from slurmfab.on_hosts.agent.nodes import ended_jobs, lost_jobs
from slurmfab.on_hosts.programs.idle_gpus.notes import Note
from slurmfab.on_hosts.programs.user_tools.asking import JOB_FIELDS


class Job(NamedTuple):
    """A job, or the pending tasks of a job array."""

    id: str  # such as `12`, `12_3` or `12_[4-9%2]`
    partitions: Tuple[str, ...]  # in which it runs, or may run
    account: str  # it runs in
    qos: str  # of the job
    state: str  # such as `RUNNING`
    reason: str  # why it waits; empty otherwise
    # when it started, or when Slurm expects it to, in seconds since 1970; `None` where that is unknown
    start: Optional[float]
    nodes: int  # number of nodes
    node_list: str  # its nodes as a hostlist; empty while it waits
    cpus: int  # number of CPUs of each task
    gpus: int  # number of GPUs of each task
    seconds: int  # run time
    time_limit: str  # in Slurm's form
    name: str  # of the job, without what cannot be printed
    idle_gpus: str = ""  # what a node or the controller says of its idle GPUs; empty for none
    still_holds: str = ""  # since when a job that has ended still holds its nodes; empty for others
    not_running: str = ""  # why a job that Slurm calls running cannot be, and what comes of it; empty for others

    @property
    def is_pending(self) -> bool:
        """Whether it waits."""
        return self.state == "PENDING"

    @property
    def cpu_time(self) -> str:
        """Run time times CPUs, in Slurm's form."""
        return clock(self.seconds * self.cpus)


def read(rows: Sequence[Sequence[str]]) -> List[Job]:
    """The jobs in the rows of squeue's answer: those that wait come last."""
    return sorted((job(row) for row in rows), key=lambda one: one.is_pending)


def job(row: Sequence[str]) -> Job:
    """A job from one row."""
    fields = dict(zip(JOB_FIELDS, row))  # noqa: B905 - zip(strict=) is Python 3.10's
    is_pending = fields["State"] == "PENDING"
    end = moment(fields["EndTime"]) if fields["State"] == "COMPLETING" else None
    is_over = end is not None and time.time() - end > ended_jobs.LATE_SECONDS
    return Job(
        id=fields["JobArrayID"],
        partitions=tuple(fields["Partition"].split(",")),
        account=fields["Account"],
        qos=fields["QOS"],
        state=fields["State"],
        reason=fields["Reason"] if is_pending else "",
        start=moment(fields["StartTime"]),
        nodes=number(fields["NumNodes"]),
        node_list="" if is_pending or fields["NodeList"] == "(null)" else fields["NodeList"],
        cpus=number(fields["NumCPUs"]),
        gpus=gpus(fields),
        seconds=seconds_of(fields["TimeUsed"]) or 0,
        time_limit=fields["TimeLimit"],
        name="".join(letter if letter.isprintable() else "?" for letter in fields["Name"]),
        still_holds=ended_jobs.held_since(fields["NodeList"], end) if end and is_over else "",
        idle_gpus=Note.read(fields["admin_comment"].strip()).text if fields["State"] == "RUNNING" else "",
    )


def with_lost(found: Iterable[Job], rows: Iterable[Sequence[str]], boots: Mapping[str, float], now: float) -> List[Job]:
    """The jobs, those that cannot be running with the reason. `boots`: when nodes booted, by name."""
    shown = ("|".join(dict(zip(JOB_FIELDS, row)).get(name, "") for name in lost_jobs.FIELDS) + "|" for row in rows)  # noqa: B905
    why = {}
    for one in lost_jobs.lost(lost_jobs.jobs_in("\n".join(shown)), now, {}, boots, has_extern=False):
        next_ = (
            "It begins anew when it is put back into the queue; your administrators can do that at once."
            if one.job.is_batch and one.job.may_requeue
            else "Submit it again; scancel %s ends what is left of it." % one.job.id
        )
        booted = lost_jobs.clock(one.booted or 0)
        why[one.job.id] = "%s was switched on at %s, after it had started, so it was lost. %s" % (
            one.job.host,
            booted,
            next_,
        )
    return [one._replace(not_running=why.get(one.id, "")) for one in found]


def gpus(fields: dict[str, str]) -> int:
    """The number of GPUs of a job: the allocated ones if Slurm counts them, else those that it asks for."""
    for name, times in (
        ("tres-alloc", ""),
        ("tres-per-job", ""),
        ("tres-per-node", "NumNodes"),
        ("tres-per-task", "NumTasks"),
    ):
        found = sum(gpus_of(fields[name]).values())
        if found:
            return found * (number(fields[times]) if times else 1)
    return 0


def number(text: str) -> int:
    """The number that a text begins with, as in `1-4`; 0 if there is none."""
    match = re.match(r"\d{1,18}", text, re.ASCII)
    return int(match[0]) if match else 0
