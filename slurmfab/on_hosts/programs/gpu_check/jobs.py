"""Measurements as `srun` jobs of lowest priority, cancelled once another job waits for their nodes."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import number_of
from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.programs.gpu_check.nodes import RESERVATION, idle_in
from slurmfab.on_hosts.programs.gpu_check.results import JOB_PREFIX, PlannedMeasurement, Result, judge_output

MAX_JOBS = 64  # highest number of a check's jobs in the queue

POLL_SECONDS = 3.0
TICK_SECONDS = 0.2
NICE = 1_000_000_000  # subtracted from the jobs' priority (srun(1), --nice): more than any priority weights add up to

GRACE_SECONDS = 90.0
"""Time that a job gets after its time limit: Slurm ends it within a minute, and then KillWait passes."""

AGAIN_SECONDS = 600.0  # time that a second measurement may wait in any case

KEPT_FOR_OTHERS = "Nodes required for job are DOWN, DRAINED or reserved"
"""How the reason of a job begins whose nodes are kept for jobs of partitions with a higher PriorityTier."""

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/nccl-tests/build:/opt/nccl_tests/build:/usr/local/nccl-tests/build"
"""Directories on nodes in which the program is searched, in this order."""

RUN_SCRIPT = """
program=$1; shift
found=$(PATH="{places}:$PATH" command -v -- "$program") || {{ echo "no $program"; exit 127; }}
exec "$found" "$@"
"""

SLURM_USER = "slurm"  # the user of the check's jobs

STATES = "--states=PENDING,RUNNING,CONFIGURING,SUSPENDED"
FIELDS = ("JobArrayID", "State", "UserName", "Partition", "NumNodes", "ReqNodes", "Reason", "Name")
"""The fields of `QueuedJob`, as named by squeue(1), --Format."""

WAITS_FOR_NODES = ("Resources", "Priority", "ReqNodeNotAvail, May be reserved")
"""Prefixes of the reasons of jobs that start once nodes are free (squeue(1), JOB REASON CODES)."""


class QueuedJob(NamedTuple):
    """A job in the queue."""

    number: str  # its id, `12_3` for one of an array
    state: str  # as squeue prints it
    user: str
    partitions: Tuple[str, ...]  # in which it may run
    nodes: int
    needs: str  # hostlist of requested nodes, empty for any
    reason: str  # why it waits
    name: str

    @property
    def is_ours(self) -> bool:
        """Whether a GPU check submitted it."""
        return self.user == SLURM_USER and self.name.startswith(JOB_PREFIX)

    @property
    def waits_for_nodes(self) -> bool:
        """Whether it would start if nodes were free."""
        return self.state == "PENDING" and self.reason.startswith(WAITS_FOR_NODES)

    def could_use(self, nodes: Sequence[str], partitions: FrozenSet[str], context: Context) -> bool:
        """Whether it may run on some of these nodes. `context`: runs `scontrol show hostnames`."""
        if not partitions & set(self.partitions):
            return False
        return not self.needs or bool(set(nodes) & set(hostnames(context, self.needs)))


def queue(context: Context) -> List[QueuedJob]:
    """All jobs that wait or run."""
    return [queued_job(row) for row in commands.jobs(FIELDS, STATES).ask(context, seconds=30)]


def queued_job(row: Sequence[str]) -> QueuedJob:
    """A job from the values of `FIELDS`."""
    number, state, user, partitions, count, needs, reason, name = row
    # A pending job may have a range as its number of nodes.
    nodes = number_of(count.split("-")[0]) or 1
    return QueuedJob(number, state, user, tuple(partitions.split(",")), nodes, needs, reason, name)


def hostnames(context: Context, hostlist: str) -> List[str]:
    """The names in a hostlist of a user's; white space in it separates names, as a comma does (hostlist.c)."""
    if "[" not in hostlist:
        return hostlist.replace(",", " ").split()
    return context.must(commands.hostnames(hostlist), seconds=30).split()


def waiting(jobs: Sequence[QueuedJob]) -> Dict[str, QueuedJob]:
    """Jobs of others that wait for nodes, by id."""
    return {job.number: job for job in jobs if job.waits_for_nodes and not job.is_ours}


def cancel_leftovers(context: Context) -> int:
    """Cancel the jobs of a killed check, and return their number."""
    left = [job.number for job in queue(context) if job.is_ours]
    if left:
        context.run(commands.cancel(left))
    return len(left)


@dataclass
class Attempt:
    """A submitted job."""

    planned: PlannedMeasurement
    process: subprocess.Popen[bytes]
    output: Any  # file with srun's output
    sent: float  # when it was submitted, by the monotonic clock
    others: Set[str] = field(default_factory=set)  # ids of the jobs that waited for nodes while this one was pending
    ended_by: str = ""  # why the check cancelled it, empty if it did not


Progress = Dict[str, Any]
"""What becomes of the jobs in the queue: `measuring`, a list of nodes, and `waiting`, lists of nodes by Slurm's reason
(squeue(1), JOB REASON CODES)."""


class Runner:
    """Makes measurements until `stop` is set; `report` gets the state of the jobs in the queue on changes.

    `settings`: see `slurmfab.on_hosts.programs.gpu_check.main`. `wait_seconds`: of all jobs together in the queue.
    """

    def __init__(
        self,
        context: Context,
        settings: Mapping[str, Any],
        stop: threading.Event,
        wait_seconds: float,
        report: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.context = context
        self.settings = settings
        self.stop = stop
        self.deadline = time.monotonic() + wait_seconds
        self.attempts: List[Attempt] = []
        self.next_poll = 0.0
        self.report = report
        self.reported: Progress = {"measuring": [], "waiting": {}}
        self.idle_nodes: Dict[str, int] = {}

    def measure(self, measurements: Iterable[PlannedMeasurement], take: Callable[[Result], None]) -> None:
        """Make measurements in order, repeat those that fall short, `take` each; no job stays in the queue."""
        todo: Deque[PlannedMeasurement] = deque(measurements)
        try:
            while (todo or self.attempts) and not self.stop.is_set():
                others = self.waiting_now() if todo else set()
                while todo and len(self.attempts) < MAX_JOBS:
                    self.attempts.append(self.send(todo.popleft(), others))
                for result in self.results():
                    if result.falls_short and result.planned.first is None:
                        todo.appendleft(result.planned._replace(first=result.measured))
                        self.deadline = max(self.deadline, time.monotonic() + AGAIN_SECONDS)
                    else:
                        take(result)
        finally:
            self.end_all()

    def send(self, planned: PlannedMeasurement, others: Set[str]) -> Attempt:
        """Start the srun of a measurement. `others`: ids of the jobs that wait already."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the attempt
        environment = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/", **self.settings["environment"]}
        process = subprocess.Popen(
            arguments(planned, self.settings), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=environment, start_new_session=True,
        )  # fmt: skip
        return Attempt(planned, process, output, time.monotonic(), set(others))

    def waiting_now(self) -> Set[str]:
        """Ids of other jobs that wait for nodes; none while slurmctld does not answer."""
        try:
            return set(waiting(queue(self.context)))
        except ResourceFailed:
            return set()

    def results(self) -> List[Result]:
        """Wait until a job ends or the queue is due to be read, and return the results of ended jobs."""
        while not self.stop.wait(TICK_SECONDS):
            ended = [one for one in self.attempts if one.process.poll() is not None]
            self.attempts = [one for one in self.attempts if one not in ended]
            is_time = time.monotonic() >= self.next_poll
            if is_time:
                # If slurmctld does not answer now, the next poll asks again.
                with contextlib.suppress(ResourceFailed):
                    self.poll_queue()
                self.next_poll = time.monotonic() + POLL_SECONDS
            if ended or is_time:
                return [result_of(one, self.settings["minutes"]) for one in ended]
        return []

    def poll_queue(self) -> None:
        """Cancel jobs whose nodes other jobs wait for, that waited too long, or that do not end."""
        jobs = queue(self.context)
        ours = {job.name: job for job in jobs if job.is_ours}
        states = {name: job.state for name, job in ours.items()}
        others = waiting(jobs)
        self.report_progress(ours)
        self.idle_nodes = {}
        now = time.monotonic()
        for one in self.attempts:
            if states.get(one.planned.job_name) == "PENDING":
                one.others = set(others)
                if now > self.deadline:
                    self.end(one, why_not_started(one.planned, ours[one.planned.job_name]))
            elif one.planned.job_name in states:
                successor = None if one.planned.is_reserved else self.successor(one, others)
                if successor:
                    self.end(one, "stopped for job %s of %s" % (successor.number, successor.user))
            if now > max(self.deadline, one.sent) + self.settings["minutes"] * 60 + GRACE_SECONDS:
                self.end(one, "its job did not end in time")

    def report_progress(self, ours: Mapping[str, QueuedJob]) -> None:
        """Report which nodes the check's jobs, by name, measure and which wait for what, if that has changed."""
        measuring: List[str] = []
        waits: Dict[str, List[str]] = {}
        for one in self.attempts:
            job = ours.get(one.planned.job_name)
            if job is not None:
                kept = waits.setdefault(job.reason, []) if job.state == "PENDING" else measuring
                kept += one.planned.names
        # Slurm has not looked at a job without a reason yet.
        waits.pop("None", None)
        found = {"measuring": measuring, "waiting": waits}
        if found != self.reported:
            self.reported = found
            if measuring or waits:
                self.report(found)

    def successor(self, attempt: Attempt, others: Mapping[str, QueuedJob]) -> Optional[QueuedJob]:
        """The job that waits for the nodes of one of our jobs; `None` if there is none.

        A job that already waited when ours started could not use these nodes alone, or it would have started first. It
        may be able to use them now, together with nodes that have become idle.
        """
        planned = attempt.planned
        partitions = frozenset(name for node in planned.nodes for name in node.partitions)
        for job in others.values():
            is_new = job.number not in attempt.others
            may_start = is_new or (job.nodes > 1 and job.nodes <= self.idle(job.partitions) + len(planned.nodes))
            if may_start and job.could_use(planned.names, partitions, self.context):
                return job
        return None

    def idle(self, partitions: Tuple[str, ...]) -> int:
        """The largest number of idle nodes in one of the partitions; counted once per poll."""
        for name in partitions:
            if name not in self.idle_nodes:
                self.idle_nodes[name] = idle_in(self.context, name)
        return max((self.idle_nodes[name] for name in partitions), default=0)

    def end(self, attempt: Attempt, reason: str) -> None:
        """Cancel a job; its srun then ends by itself, or is terminated."""
        attempt.ended_by = attempt.ended_by or reason
        self.cancel(attempt)
        try:
            attempt.process.wait(2)
        except subprocess.TimeoutExpired:
            attempt.process.terminate()

    def end_all(self) -> None:
        """Cancel all jobs, when the check was interrupted."""
        for one in self.attempts:
            one.process.terminate()
        for one in self.attempts:
            try:
                one.process.wait(10)
            except subprocess.TimeoutExpired:
                one.process.kill()
            self.cancel(one)
            one.output.close()
        self.attempts = []

    def cancel(self, attempt: Attempt) -> None:
        """Cancel a job in Slurm; if slurmctld does not answer, the next check does it."""
        with contextlib.suppress(ResourceFailed):
            self.context.run(commands.cancel_named(attempt.planned.job_name, SLURM_USER))


def why_not_started(planned: PlannedMeasurement, job: QueuedJob) -> str:
    """Why a job did not start in time: others used its nodes, or Slurm's own reason."""
    if job.waits_for_nodes or job.reason.replace("_", " ").startswith(("None", KEPT_FOR_OTHERS)):
        return "the nodes were busy" if len(planned.nodes) > 1 else "the node was busy"
    return "its job did not start; Slurm's reason: %s" % job.reason


def arguments(planned: PlannedMeasurement, settings: Mapping[str, Any]) -> List[str]:
    """A measurement's srun: one process with all GPUs, or on two nodes one per GPU, on whole nodes."""
    count = min(node.total for node in planned.nodes)
    is_one = len(planned.nodes) == 1
    tasks = 1 if is_one else count * len(planned.nodes)
    return [
        "srun", "--quiet", "--job-name=" + planned.job_name, "--partition=" + planned.partition,
        "--nodelist=" + ",".join(planned.names), "--nodes=%d" % len(planned.nodes), "--ntasks=%d" % tasks,
        "--exclusive", "--mem=0", "--gres=gpu:%d" % count, "--cpu-bind=none", "--overcommit", "--nice=%d" % NICE,
        "--time=%d" % settings["minutes"], "--chdir=/", "--kill-on-bad-exit=1", "--input=none",
        "--mpi=" + ("none" if is_one else settings["mpi"]),
        *(["--ntasks-per-node=%d" % count] if not is_one else []),
        *(["--reservation=" + RESERVATION] if planned.is_reserved else []),
        *(["--qos=" + settings["qos"]] if settings.get("qos") else []),
        "sh", "-c", RUN_SCRIPT.format(places=PROGRAM_PATH), "slurmfab", settings["program"],
        *settings["arguments"].split(), "-g", str(count if is_one else 1),
    ]  # fmt: skip


def result_of(attempt: Attempt, minutes: int) -> Result:
    """The result of a measurement whose srun has ended."""
    attempt.output.seek(0)
    output = attempt.output.read().decode(errors="replace")
    attempt.output.close()
    seconds = time.monotonic() - attempt.sent
    if attempt.ended_by:
        return Result(attempt.planned, None, attempt.ended_by, seconds)
    measured, reason = judge_output(attempt.planned, output, attempt.process.returncode, minutes)
    return Result(attempt.planned, measured, reason, seconds)
