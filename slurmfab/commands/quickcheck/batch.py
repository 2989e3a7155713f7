"""Check of a batch job as users run it: submit it, wait for its start and end, read its output and its record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

import pytest

from slurmfab.base.errors import HostError
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks import waiting
from slurmfab.commands.checks.controllers import ENDED, Job, job
from slurmfab.commands.checks.hosts import CheckedHost, last_words, line_of
from slurmfab.commands.checks.slurm import LIMIT_SECONDS
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.on_hosts.agent.client import commands

POLL_SECONDS = 0.1
SUBMIT_SECONDS = 30
"""Time limit of sbatch."""

SUSPICIOUS_SECONDS = 8
"""Seconds after which the node of a late job is checked for a running slurmd; slurmctld notices that much later."""

RECORD_SECONDS = 15
"""Seconds that slurmdbd may take to record the end of a job."""

SCRIPT = 'echo "job $SLURM_JOB_ID on $SLURM_JOB_NODELIST" && srun --input=none --mpi=none uname -n'
"""Prints job ID and node, and runs a job step, as most users' scripts do."""

NO_ACCOUNT = "Invalid account"
"""Slurm's error for a user who may not use the account (slurm_errno.h, ESLURM_INVALID_ACCOUNT)."""

WAITING = frozenset({"PENDING", "CONFIGURING"})
"""States of a job that has not started."""


def allocation(bench: Bench, node: str) -> str:
    """Submit a batch job to a node and follow it to its end.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError: the job failed, did not start, or its output or record is missing.
        pytest.skip.Exception: the job did not start in time, because other jobs come first.
    """
    output = f"{bench.who.home}/{bench.slurm.job_name}.out"
    begun = time.monotonic()
    number = submitted(bench, node, output)
    first = seen(bench, number, node, begun, lambda one: one.state not in WAITING)
    began = time.monotonic() - begun
    last = first if first.state in {*ENDED, "COMPLETED"} else seen(bench, number, node, begun, has_ended)
    ended = time.monotonic() - begun
    try:
        text, trouble = read_back(bench, node, output)
    finally:
        bench.sender.run(bench.as_person("rm", "-f", output))
    assert (last.state, last.code) == ("COMPLETED", "0:0"), (
        f"job {number} is {last.state} with exit code {last.code}: {trouble or text.strip() or 'no output'}. "
        f"Repair: see /var/log/slurmd/slurmd.log on {node}"
    )
    assert f"job {number} on {node}" in text, (
        f"job {number} completed, but its output {output} cannot be read: {trouble or 'it is empty'}. "
        f"Repair: the user {bench.who.name} and {bench.who.home} must exist on {node}; "
        f"if slurmfab creates users, {FAB} deploy"
    )
    return (
        f"job {number} started after {began:.1f} s and ended after {ended:.1f} s; "
        f"its output was read{recorded(bench, number)}"
    )


def submitted(bench: Bench, node: str, output: str) -> str:
    """Submit the job as the user.

    Returns:
        The job ID.

    Raises:
        AssertionError: Slurm rejects the job.
    """
    slurm = bench.slurm
    slurm.has_run_jobs = True
    options = ("--time=5", f"--chdir={bench.who.home}", f"--output={output}", "--ntasks=1")
    place = slurm.place((node,))
    assert place is not None, f"{node} is in no partition. Repair: add it to one in the cluster file, then {FAB} deploy"
    line = bench.as_person(
        "timeout",
        str(SUBMIT_SECONDS),
        "sbatch",
        "--parsable",
        f"--job-name={slurm.job_name}",
        *options,
        *place.options,
        slurm.memory_option((node,)),
        f"--nodelist={node}",
        f"--wrap={SCRIPT}",
    )
    done = bench.sender.run(line, seconds=SUBMIT_SECONDS + 10)
    complaint = last_words(done).removeprefix("sbatch: error: ").removeprefix("Batch job submission failed: ")
    repair = waiting.repair_of(place.partition, complaint)
    if NO_ACCOUNT in done.stderr:
        repair = f"give {bench.who.name} an account (accounts, under users in the cluster file), then {FAB} deploy"
    assert done.rc == 0, f"Slurm rejects jobs of {bench.who.name}: {complaint}. Repair: {repair}"
    number = str(done.stdout.strip().rpartition("\n")[2].partition(";")[0])
    assert commands.is_job_id(number), f"sbatch printed no job ID: {number[:80]!a}. Repair: {repair}"
    return number


def has_ended(one: Job) -> bool:
    """Whether a job has ended."""
    return one.state in {*ENDED, "COMPLETED"}


def seen(bench: Bench, number: str, node: str, begun: float, is_there: Callable[[Job], bool]) -> Job:
    """Wait until the job is in a wanted state.

    Args:
        begun: `time.monotonic()` when the job was submitted.
        is_there: whether the job is in the wanted state.

    Returns:
        The job in that state.

    Raises:
        AssertionError: the job is not in that state in time, and no other job is the cause.
        pytest.skip.Exception: other jobs come first.
    """
    looked = False
    while not is_there(one := job(bench.sender, number)):
        passed = time.monotonic() - begun
        if passed > SUSPICIOUS_SECONDS and not looked:
            looked = True
            trouble = trouble_on(bench, node)
            assert not trouble, f"job {number} makes no progress: {trouble}"
        is_limited = passed > LIMIT_SECONDS and one.state in WAITING and waiting.is_limit(reason_of(bench, number))
        if passed > bench.seconds or is_limited:
            raise_late(bench, number, node, one, min(passed, bench.seconds))
        time.sleep(POLL_SECONDS)
    return one


def reason_of(bench: Bench, number: str) -> str:
    """Why a job waits; empty if it does not."""
    return waiting.real_reason(bench.sender.run(line_of(commands.waiting_reason(number))).stdout)


def raise_late(bench: Bench, number: str, node: str, one: Job, passed: float) -> NoReturn:
    """Cancel a job that exceeded the time limit, or that a limit holds, and raise an error with the reason.

    Args:
        passed: seconds since it was submitted.

    Raises:
        AssertionError: no other job is the cause.
        pytest.skip.Exception: other jobs come first.
    """
    reason = reason_of(bench, number)
    bench.slurm.cancel()
    if one.state in WAITING and reason.startswith(waiting.FOR_NODES):
        pytest.skip(f"job {number} did not start within {passed:.0f} s: other jobs come first ({reason}).")
    if one.state in WAITING and waiting.is_limit(reason):
        pytest.skip(f"job {number} did not start within {passed:.0f} s: a limit holds it ({reason}).")
    place = bench.slurm.place((node,))
    raise AssertionError(
        f"job {number} is {one.state} after {passed:.0f} s ({reason or 'no reason'}). "
        f"Repair: {waiting.repair_of(place.partition if place else '', reason)}; {FAB} check-cluster"
    )


def trouble_on(bench: Bench, node: str) -> str:
    """Why a node cannot run jobs, with the repair; empty if its slurmd runs."""
    try:
        with bench.opener(bench.known, (node,)) as shells:
            shell = shells[node]
            if isinstance(shell, HostError):
                return f"{node} is unreachable: {shell.reason}"
            state = CheckedHost(node, shell).run("systemctl is-active slurmd").stdout.strip()
    except HostError as error:
        return f"{node} is unreachable: {error.reason}"
    logs = f"see /var/log/slurmd/slurmd.log there; {FAB} check-cluster --hosts {node}"
    return "" if state in ("active", "reloading") else f"slurmd is {state or 'not installed'}. Repair: {logs}"


def read_back(bench: Bench, node: str, output: str) -> tuple[str, str]:
    """Read a job's output file on the submitting host, where it is if homes are shared, else on the job's node.

    Returns:
        The output, and the reason why it cannot be read; the reason is empty if the file was read.
    """
    here = bench.sender.run(bench.as_person("cat", output))
    if here.rc == 0:
        return str(here.stdout), ""
    try:
        with bench.opener(bench.known, (node,)) as shells:
            shell = shells[node]
            if isinstance(shell, HostError):
                return "", shell.reason
            host = CheckedHost(node, shell)
            if host.run("id %s", bench.who.name).rc:
                return "", f"there is no user {bench.who.name} on {node}"
            there = host.run(bench.as_person("sh", "-c", f"cat {output} && rm {output}"))
    except HostError as error:
        return "", error.reason
    return str(there.stdout), "" if there.rc == 0 else last_words(there)


def recorded(bench: Bench, number: str) -> str:
    """Wait until slurmdbd has recorded the end of the job.

    Returns:
        The end of the line's sentence, about the record; empty if the cluster has no database.

    Raises:
        AssertionError: slurmdbd did not record it within `RECORD_SECONDS`.
    """
    if bench.cluster.database is None:
        return ""
    deadline = time.monotonic() + RECORD_SECONDS
    while True:
        state = bench.sender.run(line_of(commands.recorded(number, "State", "ExitCode"))).stdout.strip()
        if state == "COMPLETED|0:0":
            return "; its state in sacct is COMPLETED"
        assert time.monotonic() < deadline, (
            f"job {number} completed, but {RECORD_SECONDS} s later its state in sacct is “{state}”. "
            f"Repair: {FAB} check-cluster --only database,accounting"
        )
        time.sleep(POLL_SECONDS)
