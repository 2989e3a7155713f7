"""Measurements as jobs of low priority: they wait behind everybody's, and end when somebody waits for their nodes.

Each is an `srun` of its own, which brings its output here.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from slurmfab.agent.resource import SYSTEM_PATH, Context, ResourceFailed
from slurmfab.programs.gpu_check_nodes import RESERVATION, idle_in
from slurmfab.programs.gpu_check_queue import SLURM, Job, queue, waiting
from slurmfab.programs.gpu_check_results import Result, Wish, judged

AT_ONCE = 64
"""How many of its jobs a check has in the queue."""

POLL_SECONDS = 3.0
TICK_SECONDS = 0.2
NICE = 1_000_000_000
"""How far their priority is below that of other jobs (srun(1), --nice): beyond what any weights add up to."""

GRACE_SECONDS = 90.0
"""How long a job may take beyond its time limit: Slurm ends it within a minute, and KillWait."""

AGAIN_SECONDS = 600.0
"""How long a second measurement may wait, however late it is."""

PLACES = "/usr/local/bin:/usr/bin:/bin:/opt/nccl-tests/build:/opt/nccl_tests/build:/usr/local/nccl-tests/build"
"""Where the program is looked for on nodes, in this order."""

RUN = """
program=$1; shift
found=$(PATH="{places}:$PATH" command -v -- "$program") || {{ echo "no $program"; exit 127; }}
exec "$found" "$@"
"""


@dataclass
class Attempt:
    """A job on its way.

    Args:
        wish: what it measures.
        process: its srun.
        output: what it has printed.
        sent: when, by the monotonic clock.
        others: numbers of the jobs that waited for nodes when it last waited itself.
        ended_by: why we have ended it, empty if we have not.
    """

    wish: Wish
    process: subprocess.Popen[bytes]
    output: Any
    sent: float
    others: Set[str] = field(default_factory=set)
    ended_by: str = ""


class Runner:
    """Makes measurements.

    Args:
        context: runs Slurm's commands.
        settings: of the check, see `slurmfab.programs.gpu_check`.
        stop: set by whoever wants all of it to end.
        wait_seconds: how long jobs wait in the queue, all together.
    """

    def __init__(
        self, context: Context, settings: Mapping[str, Any], stop: threading.Event, wait_seconds: float
    ) -> None:
        self.context = context
        self.settings = settings
        self.stop = stop
        self.deadline = time.monotonic() + wait_seconds
        self.attempts: List[Attempt] = []
        self.next_look = 0.0
        self.idle_nodes: Dict[str, int] = {}

    def measure(self, wishes: Iterable[Wish], heard: Callable[[Result], None]) -> None:
        """Make all of these measurements, those that fall short twice; nothing is left in the queue in the end.

        Args:
            wishes: in the order in which they are sent.
            heard: called with each result.
        """
        todo: Deque[Wish] = deque(wishes)
        try:
            while (todo or self.attempts) and not self.stop.is_set():
                others = self.waiting_now() if todo else set()
                while todo and len(self.attempts) < AT_ONCE:
                    self.attempts.append(self.send(todo.popleft(), others))
                for result in self.results():
                    if result.falls_short and result.wish.first is None:
                        todo.appendleft(result.wish._replace(first=result.measured))
                        self.deadline = max(self.deadline, time.monotonic() + AGAIN_SECONDS)
                    else:
                        heard(result)
        finally:
            self.end_all()

    def send(self, wish: Wish, others: Set[str]) -> Attempt:
        """Start the srun of a measurement, with the jobs that wait already."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the attempt
        environment = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/", **self.settings["environment"]}
        process = subprocess.Popen(
            arguments(wish, self.settings), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=environment, start_new_session=True,
        )  # fmt: skip
        return Attempt(wish, process, output, time.monotonic(), set(others))

    def waiting_now(self) -> Set[str]:
        """The numbers of jobs of others that wait for nodes; none while slurmctld does not answer."""
        try:
            return set(waiting(queue(self.context)))
        except ResourceFailed:
            return set()

    def results(self) -> List[Result]:
        """Wait until something ends or it is time to look after all, and return what has ended."""
        while not self.stop.wait(TICK_SECONDS):
            ended = [one for one in self.attempts if one.process.poll() is not None]
            self.attempts = [one for one in self.attempts if one not in ended]
            is_time = time.monotonic() >= self.next_look
            if is_time:
                # Where slurmctld is away for a moment, the next look asks again.
                with contextlib.suppress(ResourceFailed):
                    self.look_after()
                self.next_look = time.monotonic() + POLL_SECONDS
            if ended or is_time:
                return [result_of(one, self.settings["minutes"]) for one in ended]
        return []

    def look_after(self) -> None:
        """End the jobs that others wait for, that wait too long themselves, or that do not end.

        Raises:
            ResourceFailed: slurmctld does not answer.
        """
        jobs = queue(self.context)
        states = {job.name: job.state for job in jobs if job.is_ours}
        others = waiting(jobs)
        self.idle_nodes = {}
        now = time.monotonic()
        for one in self.attempts:
            if states.get(one.wish.job_name) == "PENDING":
                one.others = set(others)
                if now > self.deadline:
                    self.end(one, "the nodes were busy" if len(one.wish.nodes) > 1 else "the node was busy")
            elif one.wish.job_name in states:
                heir = None if one.wish.is_reserved else self.heir(one, others)
                if heir:
                    self.end(one, "gave way to job %s of %s" % (heir.number, heir.user))
            if now > max(self.deadline, one.sent) + self.settings["minutes"] * 60 + GRACE_SECONDS:
                self.end(one, "its job did not end in time")

    def heir(self, attempt: Attempt, others: Mapping[str, Job]) -> Optional[Job]:
        """The job that waits for the nodes of one of ours, if there is one.

        One that waited already when ours began could not use them by themselves, for it would have come first. It
        may by now, with others that have become free.
        """
        wish = attempt.wish
        partitions = frozenset(name for node in wish.nodes for name in node.partitions)
        for job in others.values():
            is_new = job.number not in attempt.others
            may_start = is_new or (job.nodes > 1 and job.nodes <= self.idle(job.partitions) + len(wish.nodes))
            if may_start and job.could_use(wish.names, partitions, self.context):
                return job
        return None

    def idle(self, partitions: Tuple[str, ...]) -> int:
        """The idle nodes of that partition which has most, counted once for each look at the queue."""
        for name in partitions:
            if name not in self.idle_nodes:
                self.idle_nodes[name] = idle_in(self.context, name)
        return max((self.idle_nodes[name] for name in partitions), default=0)

    def end(self, attempt: Attempt, why: str) -> None:
        """End a job; its srun then ends by itself, or is ended."""
        attempt.ended_by = attempt.ended_by or why
        self.cancel(attempt)
        try:
            attempt.process.wait(2)
        except subprocess.TimeoutExpired:
            attempt.process.terminate()

    def end_all(self) -> None:
        """End all jobs, at the end of a check that was interrupted."""
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
        """Have Slurm end a job; where it does not answer, the next check does."""
        with contextlib.suppress(ResourceFailed):
            self.context.run(["scancel", "--quiet", "--user=" + SLURM, "--name=" + attempt.wish.job_name])


def arguments(wish: Wish, settings: Mapping[str, Any]) -> List[str]:
    """The srun of a measurement: within a node one process with all GPUs, between nodes one process for each.

    The whole node is taken, for its memory and its bus are part of what is measured.
    """
    count = min(node.total for node in wish.nodes)
    is_one = len(wish.nodes) == 1
    tasks = 1 if is_one else count * len(wish.nodes)
    return [
        "srun", "--quiet", "--job-name=" + wish.job_name, "--partition=" + wish.partition,
        "--nodelist=" + ",".join(wish.names), "--nodes=%d" % len(wish.nodes), "--ntasks=%d" % tasks,
        "--exclusive", "--mem=0", "--gres=gpu:%d" % count, "--cpu-bind=none", "--overcommit", "--nice=%d" % NICE,
        "--time=%d" % settings["minutes"], "--chdir=/", "--kill-on-bad-exit=1", "--input=none",
        "--mpi=" + ("none" if is_one else settings["mpi"]),
        *(["--ntasks-per-node=%d" % count] if not is_one else []),
        *(["--reservation=" + RESERVATION] if wish.is_reserved else []),
        *(["--qos=" + settings["qos"]] if settings.get("qos") else []),
        "sh", "-c", RUN.format(places=PLACES), "slurmfab", settings["program"],
        *settings["arguments"].split(), "-g", str(count if is_one else 1),
    ]  # fmt: skip


def result_of(attempt: Attempt, minutes: int) -> Result:
    """What became of a measurement whose srun has ended."""
    attempt.output.seek(0)
    output = attempt.output.read().decode(errors="replace")
    attempt.output.close()
    seconds = time.monotonic() - attempt.sent
    if attempt.ended_by:
        return Result(attempt.wish, None, attempt.ended_by, seconds)
    measured, why = judged(attempt.wish, output, attempt.process.returncode, minutes)
    return Result(attempt.wish, measured, why, seconds)
