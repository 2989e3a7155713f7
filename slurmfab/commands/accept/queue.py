"""Acceptance jobs in Slurm's queue: how they are submitted, followed, read and cancelled."""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.own_jobs import Place, place_for, places_of
from slurmfab.commands.accept.results import FAILED, NO_FIGURE, NOT_STARTED, PASSED, TIMED_OUT, Result
from slurmfab.commands.accept.wanted import PlannedRun, WantedFigure, WantedJob
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.hosts import CheckedHost, Opener, line_of, person
from slurmfab.commands.checks.shell import SshShell
from slurmfab.commands.checks.user_jobs import read_output, states, submit
from slurmfab.commands.quickcheck.bench import number
from slurmfab.commands.quickcheck.gpus import asked as asked_gpus
from slurmfab.commands.quickcheck.gpus import gpus_in
from slurmfab.core.impact.drift_kinds import acceptance as node_acceptance
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.nodes.states import flags, records
from slurmfab.on_hosts.agent.nodes.user_jobs import ENDED, MOST_OUTPUT, WAITING, Person

POLL_SECONDS = (0.2, 5.0)  # how often the queue is read: at first, and later on

GRACE_SECONDS = 180.0
"""Time that a job gets after its time limit: Slurm ends it within a minute, and then KillWait passes."""

LIFELINE_SECONDS = 30 * 24 * 3600.0
"""How long the command may wait that cancels the jobs of a run whose connection is lost."""

SUBMITTED = JobState("PENDING")

NOT_FOUND = 127  # exit code of a shell for a program that is not installed

NOT_ITS_FAULT = {
    "CANCELLED": "somebody cancelled the job",
    "PREEMPTED": "another job preempted it",
    "BOOT_FAIL": "its node did not boot",
    "REVOKED": "Slurm revoked the job",
}
"""Why a job has no figures for which it is not to blame, by its state."""

ENDS = {
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it ran out of memory",
    "GONE": "Slurm has forgotten the job before its end was seen",
}
"""Why a job failed, by its state."""

LONGEST_LINE = 4096  # characters of a line that are looked at
SECONDS = 10.0  # time limit for one pattern

SEARCH = """
import json, re, sys
pattern, longest, text = json.load(sys.stdin)
pattern, found = re.compile(pattern), None
for line in text.split("\\n"):
    match = pattern.search(line[:longest].rstrip("\\r"))
    if match and match[1] is not None:
        found = match[1]
json.dump(found, sys.stdout)
"""
"""The program of the other process: the group of the last line that matches."""

_FIGURE = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?|[+-]?\.[0-9]{1,30}")


class NotSubmitted(SlurmfabError):
    """A run could not be submitted; the text says why.

    All methods of `Queue` raise it that find out how a run is submitted.
    """


@dataclass
class Attempt:
    """A submitted job."""

    run: PlannedRun
    job_id: str
    output: str  # path of its output on its first node
    sent: float  # when it was submitted, by the monotonic clock
    started: float | None = None  # when it was first seen running; `None` if it has not been
    job: JobState = SUBMITTED
    nodes: str = ""  # where it runs or ran, as a hostlist; also while Slurm does not say

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or is not known to Slurm any more."""
        return self.job.state in ENDED

    @property
    def reason(self) -> str:
        """Why it waits, in Slurm's words."""
        reason = node_state.real_reason(self.job.reason)
        return f"Slurm's reason: {reason}" if reason else "Slurm has given no reason"


class Queue:
    """Slurm's queue, on the host from which jobs are submitted. `opener`: opens shells on other hosts."""

    def __init__(self, known: Inventory, sender: CheckedHost, opener: Opener) -> None:
        self.known = known
        self.sender = sender
        self.opener = opener
        self.job_name = f"slurmfab-accept-{secrets.token_hex(4)}"
        self.people: dict[str, Person] = {}
        self.records: Mapping[str, Mapping[str, str]] = {}

    def learn_nodes(self) -> None:
        """Read Slurm's records of all nodes."""
        shown = self.sender.ask(line_of(commands.show_nodes()))
        self.records = {record["NodeName"]: record for record in records(shown)}

    def learn_people(self, jobs: Sequence[WantedJob]) -> None:
        """Look up the users who run jobs; raises InputError for one who does not exist."""
        for job in jobs:
            if job.user not in self.people:
                try:
                    self.people[job.user] = person(self.sender, job.user)
                except InputError:
                    raise InputError(f"acceptance.{job.name}: {self.sender.name} has no user {job.user}.") from None

    def submit(self, run: PlannedRun) -> Attempt:
        """Submit a run as its user."""
        who = self.people[run.job.user]
        output = f"{who.home}/{self.job_name}-{run.job.name}-{run.number}.out"
        options = self.options(run, who, output)
        variables = [f"{name}={value}" for name, value in sorted(run.job.said.variables.items())]
        job_id, complaint = submit(self.sender, who, options, variables=variables, script=run.job.script)
        if not job_id:
            repair = node_state.repair_of(run.job.said.partition or commands.PARTITION, complaint)
            more = "" if repair == node_state.LOGS else f". Repair: {repair}"
            raise NotSubmitted(f"Slurm rejects jobs of {who.name}: {complaint}{more}")
        return Attempt(run, job_id, output, time.monotonic())

    def options(self, run: PlannedRun, who: Person, output: str) -> tuple[str, ...]:
        """The options of sbatch."""
        job = run.job
        nodes = run.nodes or job.nodes
        self.need_ready(run)
        place = self.place(job, nodes)
        where = [f"--nodelist={fold(run.nodes)}"] if run.nodes else self.left_out(job, place.partition)
        tasks = min(map(self.cores, nodes)) if job.tasks == "cores" else job.tasks
        return (
            f"--job-name={self.job_name}",
            f"--chdir={who.home}",
            f"--output={output}",
            "--open-mode=truncate",
            "--no-requeue",
            f"--time={job.minutes}",
            f"--nodes={run.count}",
            f"--ntasks-per-node={tasks}",
            *place.options,
            *where,
            *self.gpu_options(job, nodes),
            *(("--exclusive", "--mem=0") if job.said.whole_nodes else ()),
        )

    def gpu_options(self, job: WantedJob, nodes: Sequence[str]) -> tuple[str, ...]:
        """The options for the GPUs of each node."""
        if not job.gpus:
            return ()
        if isinstance(job.gpus, int):
            return (f"--gres=gpu:{job.gpus}",)
        there = {node: gpus_in(self.records.get(node, {})) for node in nodes}
        without = [node for node, gpus in there.items() if not gpus.total]
        if without:
            raise NotSubmitted(f"Slurm has no GPUs on {fold(without)}")
        if len({asked_gpus(gpus) for gpus in there.values()}) == 1:
            return (f"--gres={asked_gpus(next(iter(there.values())))}",)
        return (f"--gres=gpu:{min(gpus.total for gpus in there.values())}",)

    def need_ready(self, run: PlannedRun) -> None:
        """Refuse a run on nodes that are out of service; the job wakes those that only sleep."""
        away = [node for node in run.nodes if not takes_jobs(self.records.get(node, {}))]
        if away:
            first, record = away[0], self.records.get(away[0], {})
            expected = node_acceptance(first)
            why = node_state.complaint(first, record, expected) if record else "the node is not in Slurm"
            more = f" (and {len(away) - 1} more)" if len(away) > 1 else ""
            raise NotSubmitted(f"{first} takes no jobs; {why}{more}")

    def place(self, job: WantedJob, nodes: Sequence[str]) -> Place:
        """The partition and account of a job on some nodes."""
        cluster, wanted = self.known.cluster, job.said.partition
        if wanted is not None:
            partition = next(one for one in cluster.partitions if one.name == wanted)
            return next(iter(places_of(cluster, job.user, partition)), Place(wanted))
        found = place_for(cluster, job.user, tuple(nodes))
        if found is None:
            raise NotSubmitted(
                f"no partition has all of {fold(nodes)}; choose nodes of one partition, by the key nodes or --hosts"
            )
        return found

    def left_out(self, job: WantedJob, partition: str) -> list[str]:
        """The option for the nodes of a partition that a job may not use; empty if it may use them all."""
        cluster = self.known.cluster
        known = next((one for one in cluster.partitions if one.name == partition), None)
        others = set(cluster.nodes_in(known) if known else cluster.compute_nodes) - set(job.nodes)
        return [f"--exclude={fold(sorted(others))}"] if others else []

    def cores(self, node: str) -> int:
        """The number of a node's cores by Slurm, at least 1."""
        record = self.records.get(node, {})
        return max(1, number(record, "CPUTot") // max(1, number(record, "ThreadsPerCore")))

    def look(self, attempts: Sequence[Attempt]) -> None:
        """Read the states of jobs; they stay as they were if slurmctld does not answer."""
        if not attempts or (found := states(self.sender, [one.job_id for one in attempts])) is None:
            return
        for one in attempts:
            one.job = found[one.job_id]
            one.nodes = one.job.nodes or one.nodes
            if one.job.state not in WAITING and one.started is None:
                one.started = time.monotonic()

    def cancel(self, attempt: Attempt) -> None:
        """Cancel a job."""
        self.sender.run(line_of(commands.cancel([attempt.job_id])))

    @contextlib.contextmanager
    def lifeline(self) -> Iterator[None]:
        """Cancel all jobs at the end, also after a kill: a command on the host waits for the connection's end."""
        shell = self.sender.backend.shell
        line = f"cat >/dev/null; exec {line_of(commands.cancel_named(self.job_name))}"

        def wait() -> None:
            with contextlib.suppress(SlurmfabError):
                shell.follow(line, lambda _: None, LIFELINE_SECONDS)

        if isinstance(shell, SshShell):
            threading.Thread(target=wait, name="lifeline", daemon=True).start()
        try:
            yield
        finally:
            with contextlib.suppress(SlurmfabError):
                self.sender.run(line_of(commands.cancel_named(self.job_name)))

    def output_of(self, attempt: Attempt) -> tuple[str, str]:
        """Read the end of a job's output, and remove the file; see `user_jobs.read_output`."""
        who = self.people[attempt.run.job.user]
        node = next(iter(expand(attempt.nodes)), "") if attempt.nodes else ""
        found, trouble = read_output(self.sender, self.opener, self.known, who, path=attempt.output, node=node)
        if trouble.startswith("there is no user"):
            trouble += f"; if slurmfab creates users: {FAB} deploy"
        return found, trouble


def takes_jobs(record: Mapping[str, str]) -> bool:
    """Whether a node is in service, or will be once a job has woken it."""
    states = flags(record.get("State", ""))
    is_away = states & {"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "MAINTENANCE"}
    return node_state.is_ready(record) or bool(states & node_state.ASLEEP and not is_away)


class NoFigure(Exception):
    """The output has no such figure; the text says why."""


def figure_in(output: str, pattern: str) -> float:
    """The figure in the last matching line of an output's end; NoFigure if none, no number, or it takes too long."""
    question = json.dumps([pattern, LONGEST_LINE, output[-MOST_OUTPUT:]])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SEARCH],
            input=question.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise NoFigure(f"looking for the pattern takes more than {SECONDS:.0f} s") from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoFigure(f"the pattern could not be looked for: {error}") from None
    found: str | None = json.loads(done.stdout)
    if found is None:
        raise NoFigure("no line of the output matches the pattern")
    text = found.strip()
    value = float(text) if _FIGURE.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise NoFigure(f"{text[:40]!a} is not a number")
    return value


def results_of(queue: Queue, attempt: Attempt, logs: str = "") -> list[Result]:
    """The results of a job that ended or did not start in time; its output goes to `logs`, a local directory."""
    output, trouble = queue.output_of(attempt) if attempt.started is not None else ("", "")
    if logs and attempt.started is not None:
        where = attempt.nodes.replace("/", "_") or "nowhere"
        path = Path(logs) / f"{attempt.run.job.name}-{where[:100]}-{attempt.job_id}.out"
        atomic_file.write(path, output)
    verdict, words = ended_badly(attempt, output)
    if not verdict and trouble:
        verdict, words = NO_FIGURE, f"its output {attempt.output} cannot be read: {trouble}"
    if verdict:
        return [result(attempt, verdict, words=words)]
    return [judged(attempt, figure, output) for figure in attempt.run.job.figures]


def result(
    attempt: Attempt, verdict: str, figure: WantedFigure | None = None, value: float | None = None, words: str = ""
) -> Result:
    """A result of a job; see `Result` for the arguments."""
    seconds = time.monotonic() - attempt.sent
    return Result(attempt.run, verdict, figure, value, words, attempt.nodes, attempt.job_id, seconds)


def ended_badly(attempt: Attempt, output: str) -> tuple[str, str]:
    """The verdict about a job that did not run to its end, and the reason; both empty for one that did."""
    state, code = attempt.job.state, attempt.job.code
    if state in NOT_ITS_FAULT:
        return NOT_STARTED, NOT_ITS_FAULT[state]
    if not attempt.has_ended:
        return NOT_STARTED, attempt.reason
    if state in ("TIMEOUT", "DEADLINE"):
        return TIMED_OUT, f"it did not end within {attempt.run.job.minutes} min; {last_line(output)}"
    if state in ENDS:
        return FAILED, ENDS[state]
    if (state, code) == ("COMPLETED", "0:0"):
        return "", ""
    words = f"it ended with exit code {code.removesuffix(':0')}: {last_line(output)}"
    return FAILED, words + (missing(attempt.run.job) if code.partition(":")[0] == str(NOT_FOUND) else "")


def missing(job: WantedJob) -> str:
    """Which packages bring the program of a shipped job; empty for other jobs."""
    names = ", ".join(job.shipped.packages)
    return f" Repair: packages: {{compute: [{names}]}} in the cluster file" if names else ""


def last_line(output: str) -> str:
    """The last line of an output that is not empty."""
    lines = [line.strip() for line in output[-4096:].splitlines() if line.strip()]
    return f"“{lines[-1][:200]}”" if lines else "it printed nothing"


def judged(attempt: Attempt, figure: WantedFigure, output: str) -> Result:
    """The result of a figure of a job that ran to its end. `figure`: what is looked for."""
    try:
        value = figure_in(output, figure.pattern)
    except NoFigure as error:
        return result(attempt, NO_FIGURE, figure, words=f"{error}; {last_line(output)}")
    return result(attempt, PASSED if figure.is_met(value) else FAILED, figure, value)
