"""Batch jobs of users: submitted from a host with Slurm's commands, looked up there, and their output read."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.base.errors import HostError, InputError
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost, Opener, last_words, line_of, opened
from slurmfab.commands.checks.places import place_for
from slurmfab.commands.checks.shell import NoAnswer
from slurmfab.commands.checks.slurm import WAIT_SECONDS, Slurm
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import JobState

PATH = "/usr/local/bin:/usr/bin:/bin"  # PATH of the jobs' user, without that user's profile
SUBMIT_SECONDS = 30  # time limit of sbatch
READ_SECONDS = 20  # time limit for reading a job's output on its host
MOST_OUTPUT = 4 * 1024 * 1024  # bytes at the end of a job's output that are read

TIME_SLICE = 30  # seconds until another job has its turn, unless SchedulerTimeSlice is set (slurm.conf(5))
ANSWER_SECONDS = 4
"""Time limit in seconds of one query. Slurm's commands wait up to half of SlurmctldTimeout for a backup that is taking
over (`slurm_send_recv_controller_msg` in Slurm's source), so they are stopped and run again."""

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""States of a job that has not started."""

BAD_ENDS = frozenset({"CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED",
                      "DEADLINE", "REVOKED", "GONE"})  # fmt: skip
"""States of a job that ended without completing, and `GONE`."""

ENDED = BAD_ENDS | {"COMPLETED"}

ALONE = "slurmfab-check-alone"  # output of a job that did not see the other job start
TRIES = 100  # how often a job looks for the other job, every 0.2 s: longer than the other may wait for its resources

BOTH = (
    'n=0; until [ "$({states} | grep -c "^{mark} [^P]")" -ge 2 ]; '
    f"do n=$((n+1)); if [ $n -gt {TRIES} ]; then echo {ALONE}; exit 0; fi; sleep 0.2; done; "
)
"""Waits until both jobs with this comment have started, so that each keeps its resources until then."""


@dataclass(frozen=True)
class Person:
    """A user who submits jobs."""

    name: str
    home: str  # home directory; jobs start there, and write their output there

    @property
    def command(self) -> tuple[str, ...]:
        """The prefix that runs a command as this user, without root's environment."""
        own = (f"HOME={self.home}", f"USER={self.name}", f"LOGNAME={self.name}", "SHELL=/bin/sh", f"PATH={PATH}")
        return ("runuser", "-u", self.name, "--", "env", "-i", *own)

    def line(self, *command: str) -> str:
        """The command line, for a root shell, that runs a command as this user."""
        return f"cd /tmp && {shlex.join([*self.command, *command])}"


def person(host: CheckedHost, name: str) -> Person:
    """A user of a host, by login name. Raises InputError if the host has no such user."""
    fields = host.run("getent passwd %s", name).stdout.strip().split(":")
    if len(fields) < 7:
        raise InputError(f"--user {name}: there is no such user on {host.name}.")
    return Person(name, fields[5])


NOBODY = "nobody"  # a user that every host has, with the same number, and who may do nothing
SCRIPT = "#!/bin/sh\nsrun --ntasks=1 --mpi=none --input=none true && id -un\n"
"""A batch job with a step; the output is the user's name."""


def ordinary(cluster: Cluster, host: CheckedHost) -> Person | None:
    """The user whose job stands for those of all: the first of the cluster file whom a host knows, else nobody.

    Where jobs need an account, one who has one; `None` if there is none.
    """
    named = [one.name for one in cluster.users if one.accounts or not cluster.enforces_accounts]
    for name in (*named, *(() if cluster.enforces_accounts else (NOBODY,))):
        with suppress(InputError):
            return person(host, name)
    return None


def batch_job(slurm: Slurm, who: Person, node: CheckedHost) -> str:
    """Run `SCRIPT` on a node as a user; why it failed, or empty. Skips without room, and where a limit holds it."""
    slurm.need_room(node.name)
    place, path = place_for(slurm.cluster, who.name, (node.name,)), f"/tmp/{slurm.job_name}-{secrets.token_hex(4)}"  # noqa: S108
    if place is None:
        raise DoesNotApply(f"no partition that is UP by the cluster file has {node.name}")
    slurm.has_run_jobs = True
    memory = slurm.memory_option((node.name,))
    options = (*place.options, *slurm.turn_of(who.name), f"--nodelist={node.name}", "--ntasks=1", memory, "--time=2",
               f"--job-name={slurm.job_name}", f"--output={path}", "--chdir=/tmp", "--no-requeue")  # fmt: skip
    number, refused = submit(slurm.controller, who, options, script=SCRIPT)
    if refused and who.name == NOBODY:
        raise DoesNotApply(f"Slurm takes no job of {NOBODY} for {node.name}: {refused}")
    if refused:
        pytest.skip(f"Slurm takes no job of {who.name} for {node.name}: {refused}")
    found, turns = JobState(""), turn_seconds(slurm.cluster)
    for wait in (0.2, 0.4, 0.8, *[1.0] * (WAIT_SECONDS + turns)):
        time.sleep(wait)
        found = (states(slurm.controller, (number,)) or {}).get(number, found)
        if found.state in ENDED:
            break
    output, _ = read(node, who, path) if found.state in ENDED else ("", "")
    if found.state in WAITING:
        pytest.skip(f"the batch job of {who.name} waits for {node.name} since {WAIT_SECONDS} s ({found.reason}).")
    if turns and found.state not in ENDED:
        pytest.skip(
            f"the batch job of {who.name} shares CPUs of {node.name} with others in turns (PreemptMode GANG), and has "
            f"not ended within {WAIT_SECONDS + turns} s."
        )
    if found.state == "COMPLETED":
        return ""
    words = f": {output.strip().rpartition(chr(10))[2]}" if output.strip() else ""
    return f"the batch job {number} of {who.name} is {found.state} (exit code {found.code}){words}"


def turn_seconds(cluster: Cluster) -> int:
    """How long a job may stand still, until it has run twice, where jobs share CPUs in turns; 0 where they do not."""
    if "gang" not in str(cluster.slurm_conf.get("PreemptMode") or "").lower():
        return 0
    return 2 * int(cluster.slurm_conf.get("SchedulerTimeSlice") or TIME_SLICE)


def submit(
    host: CheckedHost,
    who: Person,
    options: Sequence[str],
    *,
    variables: Iterable[str] = (),
    script: str = "",
    directory: str = "",
    seconds: int = SUBMIT_SECONDS,
) -> tuple[str, str]:
    """Submit a batch job in a directory; its ID, or an empty one and Slurm's error.

    `variables`: `NAME=VALUE` each. `script`: empty if the options have the command. `seconds`: time limit of sbatch.
    """
    command: tuple[str, ...] = ("timeout", str(seconds), "sbatch", "--parsable", *options)
    if directory:
        # The directory may be closed to root.
        command = ("sh", "-c", f"cd {shlex.quote(directory)} && exec {shlex.join(command)}")
    done = host.run(who.line(*variables, *command), stdin=script, seconds=seconds + 10)
    number = str(done.stdout.strip().rpartition("\n")[2].partition(";")[0])
    if done.rc:
        return "", last_words(done).removeprefix("sbatch: error: ").removeprefix("Batch job submission failed: ")
    return (number, "") if commands.is_job_id(number) else ("", f"sbatch printed no job ID: {number[:80]!a}")


def asked(host: CheckedHost, command: Sequence[str], seconds: int = ANSWER_SECONDS) -> CommandResult:
    """The result of one of Slurm's commands on a host. `command`: from `slurmfab.on_hosts.agent.client.commands`."""
    return host.run(f"timeout {seconds} {line_of(command)}")


def states(host: CheckedHost, numbers: Sequence[str]) -> dict[str, JobState] | None:
    """What slurmctld knows of jobs by ID, `GONE` for one that it does not know; `None` if it does not answer."""
    done = asked(host, commands.job_states(numbers))
    found = commands.states(str(done.stdout))
    if done.rc and not found and "Invalid job id" not in done.stderr:
        return None
    return {number: found.get(number, JobState("GONE")) for number in numbers}


def state(host: CheckedHost, number: str) -> JobState:
    """What slurmctld knows of a job; `GONE` if it does not know the job or does not answer."""
    found = commands.states(str(asked(host, commands.job_states((number,))).stdout))
    # A task of an array, `12_3`, is listed by the ID of its own.
    return next(iter(found.values()), JobState("GONE"))


def read(host: CheckedHost, who: Person, path: str) -> tuple[str, str]:
    """Read the end of a user's file on a host, and remove it; its text, and why it cannot be read, if so."""
    name = shlex.quote(path)
    # Its owner may have put a FIFO or an endless file in its place.
    end = f"test -f {name} && timeout {READ_SECONDS} tail -c {MOST_OUTPUT} -- {name} && rm -f -- {name}"
    try:
        done = host.run(who.line("sh", "-c", end))
    except NoAnswer as error:
        return "", error.reason
    if done.rc == 0:
        return str(done.stdout), ""
    return "", last_words(done) if done.stderr.strip() else "it is not there, or no file"


def read_output(
    host: CheckedHost, opener: Opener, known: Inventory, who: Person, *, path: str, node: str
) -> tuple[str, str]:
    """Read a job's output as `read` does, where it was submitted or, without shared homes, on its first node."""
    output, trouble = read(host, who, path)
    if not trouble or node in ("", host.name) or node not in known.cluster.hosts:
        return output, trouble
    try:
        with opened(opener, known, node) as there:
            if there.run("id %s", who.name).rc:
                return "", f"there is no user {who.name} on {node}"
            return read(there, who, path)
    except HostError as error:
        return "", error.reason


def side_by_side(
    slurm: Slurm, node: str, command: str, options: Sequence[str] = ()
) -> tuple[CommandResult, CommandResult]:
    """Run a command by `sh -c` in two jobs on one node, once both have started; both results.

    Raises AssertionError if Slurm did not run them; skips without room for both.
    """
    record = slurm.node_as_found(node)
    if int(record["CPUTot"]) < 2 * int(record["ThreadsPerCore"]):
        raise DoesNotApply(f"{node} has only one core")
    mark = f"pair-{secrets.token_hex(4)}"
    script = BOTH.format(states=line_of(commands.own_states(slurm.job_name)), mark=mark) + command
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(slurm.run, (node,), script, options=(*options, f"--comment={mark}")) for _ in range(2)]
        first, second = (one.result() for one in running)
    if ALONE in first.stdout + second.stdout:
        pytest.skip(f"{node} had no room for two small jobs at once.")
    return first, second
