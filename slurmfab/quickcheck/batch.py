"""A batch job from beginning to end, as a user has it: sent, begun, ended, and its output read back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

import pytest

from slurmfab.checks.controllers import ENDED, Job, job
from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.slurm import BUSY, SMALL_MEMORY
from slurmfab.checks.wanted import partition_of
from slurmfab.errors import HostError
from slurmfab.quickcheck.bench import Bench

POLL_SECONDS = 0.1
SUBMIT_SECONDS = 30
SUSPICIOUS_SECONDS = 8
"""How long a job may take before its node is asked whether its slurmd runs; slurmctld finds that out much later."""

RECORD_SECONDS = 15
"""How long slurmdbd may take until it has the end of a job."""

SCRIPT = 'echo "job $SLURM_JOB_ID on $SLURM_JOB_NODELIST" && srun --input=none --mpi=none uname -n'
"""Runs a step from within the job, as most scripts of users do."""

NO_ACCOUNT = "Invalid account"
"""What Slurm says to whoever may not use an account (slurm_errno.h, ESLURM_INVALID_ACCOUNT)."""

WAITING = frozenset({"PENDING", "CONFIGURING"})


def allocation(bench: Bench, node: str) -> str:
    """Send a batch job to a node and see it through.

    Returns:
        What was seen.

    Raises:
        AssertionError: something of it did not work.
        pytest.skip.Exception: it did not begin in time, because others come first.
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
        f"job {number} is {last.state} with exit code {last.code}: {trouble or text.strip() or 'it left no word'}. "
        f"Repair: see /var/log/slurm/slurmd.log on {node}"
    )
    assert f"job {number} on {node}" in text, (
        f"job {number} ended well, but its output {output} is not there: {trouble or 'it is empty'}. "
        f"Repair: {bench.who.name} and {bench.who.home} have to be on {node}; where slurmfab makes users, fab deploy"
    )
    return (
        f"job {number} began after {began:.1f} s and ended after {ended:.1f} s; "
        f"its output was read{recorded(bench, number)}"
    )


def submitted(bench: Bench, node: str, output: str) -> str:
    """The number of the new job.

    Raises:
        AssertionError: Slurm does not take it.
    """
    slurm = bench.slurm
    slurm.has_run_jobs = True
    words = ("--time=5", f"--chdir={bench.who.home}", f"--output={output}", "--ntasks=1", f"--mem={SMALL_MEMORY}M")
    place = (f"--partition={partition_of(bench.cluster, (node,))}", f"--nodelist={node}")
    line = bench.as_person(
        "timeout",
        str(SUBMIT_SECONDS),
        "sbatch",
        "--parsable",
        f"--job-name={slurm.job_name}",
        *words,
        *place,
        f"--wrap={SCRIPT}",
    )
    done = bench.sender.run(line, seconds=SUBMIT_SECONDS + 10)
    complaint = last_words(done).removeprefix("sbatch: error: ").removeprefix("Batch job submission failed: ")
    repair = "see /var/log/slurm/slurmctld.log on the controller"
    if NO_ACCOUNT in done.stderr:
        repair = f"give {bench.who.name} an account (accounts, under users in the cluster file), then fab deploy"
    assert done.rc == 0, f"Slurm takes no job of {bench.who.name}: {complaint}. Repair: {repair}"
    return str(done.stdout.split()[-1].partition(";")[0])


def has_ended(one: Job) -> bool:
    """Whether a job is over."""
    return one.state in {*ENDED, "COMPLETED"}


def seen(bench: Bench, number: str, node: str, begun: float, is_there: Callable[[Job], bool]) -> Job:
    """The job as it is when it has come so far.

    Raises:
        AssertionError: it does not come so far, and no other job is the cause.
        pytest.skip.Exception: other jobs come first.
    """
    looked = False
    while not is_there(one := job(bench.sender, number)):
        passed = time.monotonic() - begun
        if passed > SUSPICIOUS_SECONDS and not looked:
            looked = True
            trouble = trouble_on(bench, node)
            assert not trouble, f"job {number} does not get on: {trouble}"
        if passed > bench.seconds:
            raise_late(bench, number, one)
        time.sleep(POLL_SECONDS)
    return one


def raise_late(bench: Bench, number: str, one: Job) -> NoReturn:
    """Say why a job has not come so far in its time, and cancel it.

    Raises:
        AssertionError: no other job is the cause.
        pytest.skip.Exception: other jobs come first.
    """
    reason = bench.sender.run("squeue --noheader --jobs=%s --format=%%r", number).stdout.strip() or "no reason"
    bench.slurm.cancel()
    if one.state in WAITING and reason in BUSY:
        pytest.skip(f"job {number} did not begin within {bench.seconds:.0f} s: other jobs come first ({reason}).")
    raise AssertionError(
        f"job {number} is {one.state} after {bench.seconds:.0f} s ({reason}). "
        "Repair: see /var/log/slurm/slurmctld.log on the controller; fab check-cluster"
    )


def trouble_on(bench: Bench, node: str) -> str:
    """What keeps a node from its jobs, with the repair; empty where its slurmd runs."""
    try:
        with bench.opener(bench.known, (node,)) as shells:
            shell = shells[node]
            if isinstance(shell, HostError):
                return f"nobody answers: {shell.reason}"
            state = CheckedHost(node, shell).run("systemctl is-active slurmd").stdout.strip()
    except HostError as error:
        return f"nobody answers: {error.reason}"
    logs = f"see /var/log/slurm/slurmd.log there; fab check-cluster --hosts {node}"
    return "" if state in ("active", "reloading") else f"slurmd is {state or 'not there'}. Repair: {logs}"


def read_back(bench: Bench, node: str, output: str) -> tuple[str, str]:
    """What a job has left in its output file, and why it cannot be read.

    The file is looked for where the job came from, as it is there when homes are shared, and then on its node.
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
    """That slurmdbd has the job's end on record, as the end of a sentence; nothing for clusters without.

    Raises:
        AssertionError: it has not.
    """
    if bench.cluster.database is None:
        return ""
    deadline = time.monotonic() + RECORD_SECONDS
    while True:
        command = "sacct --noheader --allocations --parsable2 --format=State,ExitCode --jobs=%s"
        state = bench.sender.run(command, number).stdout.strip()
        if state == "COMPLETED|0:0":
            return "; sacct has it as completed"
        assert time.monotonic() < deadline, (
            f"job {number} ended well, and {RECORD_SECONDS} s later sacct has it as “{state}”. "
            "Repair: fab check-cluster --only database,accounting"
        )
        time.sleep(POLL_SECONDS)
