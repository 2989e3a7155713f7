"""The kinds of jobs that ran or waited lately, counted, from the records in slurmdbd, for `fab rehearse`; reads alone.

Rows that are equal but for their number and their run time are counted as they come, and read once, so that a million
jobs of a few hundred kinds cost little.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Set, Tuple

from slurmfab.on_hosts.agent.accounting.job_records import ANSWER_SECONDS, amounts, ask_records, number
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

FIELDS = (
    "User", "UID", "Account", "Partition", "QOS", "Constraints", "ReqTRES", "TimelimitRaw", "JobID", "ElapsedRaw",
)  # fmt: skip
"""Fields of a record, as named by sacct(1) of 22.05 to 26.05; the last two are not part of a kind."""

MOST_SHAPES = 2000  # the most kinds that an answer has
MOST_TEXT = 200  # kinds with a longer text are left out

NO_QOS = "Unknown"  # what sacct says of a job without a QOS, as those from before there were accounts


class Shape(NamedTuple):
    """A kind of jobs: who asked for what, and how many did."""

    user: str
    uid: int
    account: str
    partition: str  # of waiting jobs perhaps several, by commas
    qos: str
    features: str  # the constraint, as sbatch has it
    nodes: int
    cpus: int  # on all nodes together
    memory: int  # MiB, likewise
    gres: str  # likewise, as sbatch has it: `gpu:a100:2`
    minutes: int  # the time limit; 0 for none
    jobs: int  # how many, each task of an array counted
    seconds: int  # how long these ran, together
    array: int  # how many tasks the arrays among them had on average; 0 if there were none


class Counted:
    """What is counted of jobs whose rows are equal."""

    def __init__(self) -> None:
        self.jobs, self.seconds, self.tasks = 0, 0, 0
        self.arrays: Set[str] = set()

    def add(self, job: str, seconds: str) -> None:
        """Count a job by its id as squeue prints it."""
        array, _, task = job.partition("_")
        self.jobs += 1
        self.seconds += number(seconds)
        if task:
            self.tasks += 1
            self.arrays.add(array)


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Ask slurmdbd, and count.

    Args:
        request: `days`: how far back.

    Returns:
        `accounting`: whether Slurm keeps records. `since`, `until`: seconds since 1970. `jobs`: how many there were.
        `shapes`: values of `Shape`, as `in_order` has them, and `more`: how many kinds were left out.

    Raises:
        ResourceFailed: slurmdbd does not answer.
    """
    until = int(time.time())
    since = until - int(request["days"]) * 86400
    answer: Dict[str, Any] = {"accounting": True, "since": since, "until": until, "jobs": 0, "shapes": [], "more": 0}
    table = commands.job_records(since, until, FIELDS, "--allocations")
    try:
        rows = ask_records(context, table, time.monotonic() + ANSWER_SECONDS)
        found = counted(rows)
    except ResourceFailed as error:
        if commands.NO_RECORDS in str(error):
            return {**answer, "accounting": False}
        raise
    shapes = in_order(shape(row, count) for row, count in found.items())
    jobs = sum(count.jobs for count in found.values())
    return {**answer, "jobs": jobs, "shapes": [list(one) for one in shapes[:MOST_SHAPES]],
            "more": len(found) - len(shapes[:MOST_SHAPES])}  # fmt: skip


def counted(rows: Iterable[List[str]]) -> Dict[Tuple[str, ...], Counted]:
    """Rows of `FIELDS`, counted by all but the last two; without slurmfab's own jobs and odd names of users."""
    found: Dict[Tuple[str, ...], Counted] = {}
    for *kind, job, seconds in rows:
        if kind[0] and kind[0][0] != "-" and kind[3] != commands.PARTITION:
            found.setdefault(tuple(kind), Counted()).add(job, seconds)
    return found


def shape(row: Tuple[str, ...], count: Counted) -> Shape:
    """The kind of which these are the values and the counts."""
    user, uid, account, partition, qos, features, tres, minutes = row
    qos = "" if qos == NO_QOS else qos
    asked = amounts(tres)
    size = round(count.tasks / len(count.arrays)) if count.arrays else 0
    return Shape(one_line(user), number(uid), one_line(account), one_line(partition), one_line(qos), one_line(features),
                 int(asked.get("node", 1)), int(asked.get("cpu", 1)), int(asked.get("mem", 0)), gres_of(asked),
                 number(minutes), count.jobs, count.seconds, size)  # fmt: skip


def gres_of(tres: Mapping[str, float]) -> str:
    """The generic resources among TRES as sbatch has them; of GPUs with types only these.

    >>> gres_of({"cpu": 4, "gres/gpu": 2, "gres/gpu:a100": 2, "gres/shard": 1})
    'gpu:a100:2,shard:1'
    """
    named = {name.partition("/")[2]: int(amount) for name, amount in tres.items() if name.startswith("gres/")}
    typed = {name.partition(":")[0] for name in named if ":" in name}
    return ",".join("%s:%d" % one for one in sorted(named.items()) if one[1] and one[0] not in typed)


def in_order(shapes: Iterable[Shape]) -> List[Shape]:
    """The kinds that most jobs have first, but before these one for each partition, QOS, account, GRES and feature."""
    first: List[Shape] = []
    others: List[Shape] = []
    seen: Set[Tuple[str, str]] = set()
    for one in sorted(shapes, key=lambda one: (-one.jobs, one)):
        if max(map(len, (one.user, one.account, one.partition, one.qos, one.features, one.gres))) > MOST_TEXT:
            continue
        new = {(name, str(getattr(one, name))) for name in ("partition", "qos", "account", "gres", "features")} - seen
        (first if new else others).append(one)
        seen |= new
    return first + others
