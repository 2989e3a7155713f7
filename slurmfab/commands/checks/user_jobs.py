"""Batch jobs of users: submitted from a host with Slurm's commands, looked up there, and their output read."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.base.errors import HostError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.own_jobs import NOBODY, place_for
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost, Opener, last_words, line_of, opened
from slurmfab.commands.checks.shell import NoAnswer
from slurmfab.commands.checks.slurm import WAIT_SECONDS, Slurm
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.nodes.user_jobs import (
    ANSWER_SECONDS,
    FAILED,
    REFUSED,
    SUBMIT_SECONDS,
    WAITED,
    Person,
    batch_jobs,
    no_room,
    number_of,
    preempts,
    reading,
    told_states,
)

ALONE = "slurmfab-check-alone"  # output of a job that did not see the other job start
TRIES = 100  # how often a job looks for the other job, every 0.2 s: longer than the other may wait for its resources

BOTH = (
    'n=0; until [ "$({states} | grep -c "^{mark} [^P]")" -ge 2 ]; '
    f"do n=$((n+1)); if [ $n -gt {TRIES} ]; then echo {ALONE}; exit 0; fi; sleep 0.2; done; "
)
"""Waits until both jobs with this comment have started, so that each keeps its resources until then."""


def batch_job(slurm: Slurm, who: Person, node: CheckedHost) -> str:
    """Run a batch job with a step on a node as a user; why it failed, or empty.

    Skips without room, where a job might stop others, and where a limit holds it.
    """
    record = slurm.need_room(node.name)
    place = place_for(slurm.cluster, who.name, (node.name,))
    if place is None:
        raise DoesNotApply(f"no partition that is UP by the cluster file has {node.name}")
    if why := no_room(record, preempts(slurm.controller.as_found.ask(line_of(commands.SHOW_CONFIG)))):
        pytest.skip(f"{node.name}: {why}.")
    slurm.has_run_jobs = True

    def ask(line: str, stdin: str) -> tuple[int, str, str]:
        done = slurm.controller.run(line, stdin=stdin, seconds=SUBMIT_SECONDS + 10)
        return done.rc, str(done.stdout), str(done.stderr)

    options = {node.name: (*place.options, *slurm.own_turn(), slurm.memory_option((node.name,)))}
    end = batch_jobs(ask, who, options, slurm.job_name, WAIT_SECONDS)[node.name]
    output = read(node, who, end.path)[0] if end.path else ""
    if end.how == REFUSED and who.name == NOBODY:
        raise DoesNotApply(f"Slurm takes no job of {NOBODY} for {node.name}: {end.text}")
    if end.how == REFUSED:
        pytest.skip(f"Slurm takes no job of {who.name} for {node.name}: {end.text}")
    if end.how == WAITED:
        pytest.skip(f"the batch job of {who.name} on {node.name}: {end.text}.")
    return end.told(output) if end.how == FAILED else ""


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
    return number_of(done.rc, str(done.stdout), str(done.stderr))


def asked(host: CheckedHost, command: Sequence[str], seconds: int = ANSWER_SECONDS) -> CommandResult:
    """The result of one of Slurm's commands on a host. `command`: from `slurmfab.on_hosts.agent.client.commands`."""
    return host.run(f"timeout {seconds} {line_of(command)}")


def states(host: CheckedHost, numbers: Sequence[str]) -> dict[str, JobState] | None:
    """What slurmctld knows of jobs by ID, `GONE` for one that it does not know; `None` if it does not answer."""
    done = asked(host, commands.job_states(numbers))
    return told_states(numbers, done.rc, str(done.stdout), str(done.stderr))


def state(host: CheckedHost, number: str) -> JobState:
    """What slurmctld knows of a job; `GONE` if it does not know the job or does not answer."""
    found = commands.states(str(asked(host, commands.job_states((number,))).stdout))
    # A task of an array, `12_3`, is listed by the ID of its own.
    return next(iter(found.values()), JobState("GONE"))


def read(host: CheckedHost, who: Person, path: str) -> tuple[str, str]:
    """Read the end of a user's file on a host, and remove it; its text, and why it cannot be read, if so."""
    try:
        done = host.run(reading(who, path))
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
    record = slurm.node(node)
    of_two_cores = 2 * int(record["ThreadsPerCore"])
    if int(record["CPUTot"]) < of_two_cores:
        raise DoesNotApply(f"{node} has only one core")
    if int(record["CPUTot"]) - int(record["CPUAlloc"]) < of_two_cores and slurm.others_on((node,)):
        pytest.skip(f"{node} has no room for two small jobs beside other jobs.")
    mark = f"pair-{secrets.token_hex(4)}"
    script = BOTH.format(states=line_of(commands.own_states(slurm.job_name)), mark=mark) + command
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(slurm.run, (node,), script, options=(*options, f"--comment={mark}")) for _ in range(2)]
        first, second = (one.result() for one in running)
    if ALONE in first.stdout + second.stdout:
        pytest.skip(f"{node} had no room for two small jobs at once.")
    return first, second
