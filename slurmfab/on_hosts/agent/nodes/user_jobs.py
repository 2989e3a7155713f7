"""Batch jobs of an ordinary user on nodes, each with a step; checks and deployments run the same ones.

Slurm's daemons do much as root or the slurm user, and what users lack there shows in their own jobs alone: such as the
right to read a script in slurmd's directory.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.states import records, shown_nodes, state_of

PATH = "/usr/local/bin:/usr/bin:/bin"  # PATH of the jobs' user, without that user's profile
SCRIPT = "#!/bin/sh\nsrun --ntasks=1 --mpi=none --input=none true\n"  # a batch job with a step

SUBMIT_SECONDS = 30  # time limit of sbatch
READ_SECONDS = 20  # time limit for reading a job's output on its host
MOST_OUTPUT = 4 * 1024 * 1024  # bytes at the end of a job's output that are read
PARALLEL = 8  # how many jobs are submitted at once
RUN_SECONDS = 20.0  # how long the jobs may run, once none waits
POLLS = (0.2, 0.2, 0.3, 0.5, 1.0)  # seconds between looks at the jobs, the last one repeated
SMALL_MEMORY = 50  # MiB of memory that a test job requests by default

ANSWER_SECONDS = 4
"""Time limit in seconds of one query. Slurm's commands wait up to half of SlurmctldTimeout for a backup that is taking
over (`slurm_send_recv_controller_msg` in Slurm's source), so they are stopped and run again."""

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""States of a job that has not started."""

BAD_ENDS = frozenset({"CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED",
                      "DEADLINE", "REVOKED", "GONE"})  # fmt: skip
"""States of a job that ended without completing, and `GONE`."""

ENDED = BAD_ENDS | {"COMPLETED"}

RAN, REFUSED, WAITED, FAILED = "ran", "refused", "waited", "failed"
"""What comes of a job: it ended well; Slurm did not take it; it did not start, or not end, in time; it ended badly."""

NAME = "slurmfab-check-%s"  # of the jobs of a deployment, as those of checks have it
PATIENCE = 5.0  # seconds that a deployment's jobs may wait: a full cluster holds none up

Ask = Callable[[str, str], Tuple[int, str, str]]
"""Runs a line in a root shell with a standard input; exit code, output and errors."""

_SCRIPT_PLACE = r"(/\S+)/job\d+/slurm_script\b.*Permission denied"


class Person(NamedTuple):
    """A user who submits jobs."""

    name: str
    home: str  # home directory; jobs start there, and write their output there

    @property
    def command(self) -> Tuple[str, ...]:
        """The prefix that runs a command as this user, without root's environment."""
        own = ("HOME=" + self.home, "USER=" + self.name, "LOGNAME=" + self.name, "SHELL=/bin/sh", "PATH=" + PATH)
        return ("runuser", "-u", self.name, "--", "env", "-i", *own)

    def line(self, *command: str) -> str:
        """The command line, for a root shell, that runs a command as this user."""
        return "cd /tmp && " + shlex.join([*self.command, *command])


class End(NamedTuple):
    """What came of a job."""

    how: str  # `RAN`, `REFUSED`, `WAITED` or `FAILED`
    text: str = ""  # why, unless it ran
    path: str = ""  # of its output on the node, if there may be one

    def told(self, output: str) -> str:
        """Why it failed, with the last line of its output, and what to try."""
        words = output.strip().rpartition("\n")[2].strip()
        place = re.search(_SCRIPT_PLACE, output)
        advice = (
            "Users have to be able to read their scripts in SlurmdSpoolDir: namei -l %s there" % place[1]
            if place
            else "Repair: see the log of slurmd there"
        )
        return "%s%s. %s" % (self.text, ": " + words.rstrip(".") if words else "", advice)


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Run a job on each of some nodes, on the controller; or read the output of one that failed, on its node.

    Args:
        request: `users`: who may have the jobs, each with rows of sbatch's options and nodes; the first one whom the
            host knows has them. Or `user` and `path`, of an output.

    Returns:
        `user`: whose jobs they are, empty for nobody's. `ends`: how, why and the output's path, by node. Or `output`;
        `user` is empty if the node does not know the user.
    """
    users = request["users"] if "users" in request else [[request["user"], []]]
    known = [(Person(name, found.pw_dir), rows) for name, rows in users for found in passwd(name)][:1]

    def ask(line: str, stdin: str) -> Tuple[int, str, str]:
        done = context.run(["sh", "-c", line], stdin=stdin.encode(), seconds=SUBMIT_SECONDS + 10)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    if not known:
        return {"user": "", "ends": {}, "output": ""}
    (who, rows), *_ = known
    if "users" not in request:
        return {"user": who.name, "ends": {}, "output": ask(reading(who, request["path"]), "")[1]}
    found = {one["NodeName"]: one for one in records(shown_nodes(context, 60.0))}
    stops_others = preempts(context.must(commands.SHOW_CONFIG))
    ends: Dict[str, End] = {}
    wanted: Dict[str, List[str]] = {}
    for options, nodes in rows:
        for node in nodes:
            record = found.get(node, {})
            states = state_of(record).flags
            if not state_of(record).is_in_service or "POWERED_DOWN" in states or "POWERING_UP" in states:
                ends[node] = End(WAITED, "its state in Slurm is %s" % record.get("State", "UNKNOWN"))
            elif why := no_room(record, stops_others):
                ends[node] = End(WAITED, why)
            else:
                wanted[node] = [*options, memory_option([record])]
    ends.update(batch_jobs(ask, who, wanted, NAME % os.urandom(3).hex(), PATIENCE))
    return {"user": who.name, "ends": {node: list(end) for node, end in ends.items()}, "output": ""}


def passwd(name: str) -> List[pwd.struct_passwd]:
    """The entry of a user; none if the host has no such user."""
    try:
        return [pwd.getpwnam(name)]
    except KeyError:
        return []


def preempts(shown: str) -> bool:
    """Whether a job may stop others, by what `SHOW_CONFIG` prints."""
    return not re.search(r"(?im)^PreemptMode\s*=\s*OFF\s*$", shown)


def no_room(record: Mapping[str, str], stops_others: bool) -> str:
    """Why a small job had to wait for jobs on a node, or might stop them; empty if it has room."""
    used = record.get("CPUAlloc", "0")
    if used == record.get("CPUTot"):
        return "all of it is taken by jobs"
    return "jobs run there, which another one might stop (PreemptMode)" if stops_others and used != "0" else ""


def memory_option(nodes: Iterable[Mapping[str, str]], memory: int = SMALL_MEMORY) -> str:
    """The option of a job's memory on each of some nodes: MiB, up to what Slurm knows; 1 without RealMemory."""
    known = (one.get("RealMemory", "") for one in nodes)
    return "--mem=%dM" % min([memory, *(int(one) for one in known if one.isdecimal())])


def batch_jobs(
    ask: Ask, who: Person, options: Mapping[str, Sequence[str]], name: str, patience: float
) -> Dict[str, End]:
    """Run `SCRIPT` on nodes as a user at once, and what came of each; none is left behind.

    A job that fails runs once more for its output: that of one that may end well could not be removed, as `private_tmp`
    hides it from the job.
    `options`: sbatch's, by node. `name`: of the jobs. `patience`: seconds that they may wait for room.
    """
    ends = run_once(ask, who, options, name, patience, {})
    paths = {
        node: "/tmp/%s-%s" % (name, os.urandom(4).hex())  # noqa: S108 - its name is not to be guessed
        for node, end in ends.items()
        if end.how == FAILED
    }
    if paths:
        run_once(ask, who, {node: options[node] for node in paths}, name, patience, paths)
    return {node: end._replace(path=paths.get(node, "")) for node, end in ends.items()}


def run_once(  # noqa: PLR0917 - the arguments of `batch_jobs`, and where outputs go
    ask: Ask,
    who: Person,
    options: Mapping[str, Sequence[str]],
    name: str,
    patience: float,
    paths: Mapping[str, str],
) -> Dict[str, End]:
    """What came of one job on each node. `paths`: of outputs, by node; without one it goes nowhere."""

    def submit(node: str) -> Tuple[str, str]:
        command = ("timeout", str(SUBMIT_SECONDS), "sbatch", "--parsable", *options[node], "--nodelist=" + node,
                   "--ntasks=1", "--time=2", "--deadline=now+5minutes", "--job-name=" + name,
                   "--output=" + paths.get(node, "/dev/null"), "--chdir=/tmp", "--no-requeue")  # fmt: skip
        return number_of(*ask(who.line(*command), SCRIPT))

    ends: Dict[str, End] = {}
    jobs: Dict[str, str] = {}  # the node of each job
    with ThreadPoolExecutor(PARALLEL) as pool:
        for node, (number, refused) in zip(options, pool.map(submit, options)):  # noqa: B905 - as Python 3.9 has it
            if refused:
                ends[node] = End(REFUSED, refused)
            else:
                jobs[number] = node
    found, open_jobs = followed(ask, jobs, patience)
    for number, node in jobs.items():
        job, is_open = found.get(number, JobState("PENDING")), number in open_jobs
        if is_open and job.state in WAITING:
            ends[node] = End(WAITED, "it has waited for %.0f s (%s)" % (patience, job.reason))
        elif is_open:
            ends[node] = End(WAITED, "it has not ended within %.0f s" % RUN_SECONDS)
        elif job.state == "COMPLETED":
            ends[node] = End(RAN)
        else:
            text = "the batch job %s of %s is %s (exit code %s)" % (number, who.name, job.state, job.code)
            ends[node] = End(FAILED, text)
    return ends


def followed(ask: Ask, numbers: Iterable[str], patience: float) -> Tuple[Dict[str, JobState], Set[str]]:
    """What came of jobs by ID, and those that had not ended in time, which are cancelled."""
    found: Dict[str, JobState] = {}
    begun, looks, left = time.monotonic(), 0, set(numbers)
    while left:
        time.sleep(POLLS[min(looks, len(POLLS) - 1)])
        looks += 1
        found.update(states(ask, sorted(left)))
        waiting = {number for number in left if number not in found or found[number].state in WAITING}
        left = {number for number in left if number in waiting or found[number].state not in ENDED}
        spent = time.monotonic() - begun
        if spent > patience + RUN_SECONDS or (spent > patience and waiting == left):
            break
    if left:
        ask(shlex.join(commands.cancel(sorted(left))), "")
    return found, left


def number_of(code: int, output: str, errors: str) -> Tuple[str, str]:
    """The ID of a job from what `sbatch --parsable` printed, or an empty one and Slurm's error."""
    if code:
        lines = (errors.strip() or output.strip()).splitlines()
        last = lines[-1].strip().rstrip(".") if lines else "exit code %d" % code
        for beginning in ("sbatch: error: ", "Batch job submission failed: "):
            last = last[len(beginning) :] if last.startswith(beginning) else last
        return "", last
    number = output.strip().rpartition("\n")[2].partition(";")[0]
    return (number, "") if commands.is_job_id(number) else ("", "sbatch printed no job ID: " + ascii(number[:80]))


def states(ask: Ask, numbers: Sequence[str]) -> Dict[str, JobState]:
    """What slurmctld knows of jobs by ID, `GONE` for one that it does not know; none if it does not answer."""
    asked = "timeout %d %s" % (ANSWER_SECONDS, shlex.join(commands.job_states(numbers)))
    return told_states(numbers, *ask(asked, "")) or {}


def told_states(numbers: Sequence[str], code: int, output: str, errors: str) -> Optional[Dict[str, JobState]]:
    """What `job_states` has told of jobs by ID, `GONE` for one that slurmctld does not know; `None` for no answer."""
    found = commands.states(output)
    if code and not found and "Invalid job id" not in errors:
        return None
    return {number: found.get(number, JobState("GONE")) for number in numbers}


def reading(who: Person, path: str) -> str:
    """The line that prints the end of a user's file, and removes it."""
    name = shlex.quote(path)
    # Its owner may have put a FIFO or an endless file in its place.
    end = "test -f %s && timeout %d tail -c %d -- %s && rm -f -- %s" % (name, READ_SECONDS, MOST_OUTPUT, name, name)
    return who.line("sh", "-c", end)
