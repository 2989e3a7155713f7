"""Check of a batch job as users run it: submit it, wait for its start and end, read its output and its record."""

from __future__ import annotations

import time
from typing import NoReturn

import pytest

from slurmfab.base.errors import HostError
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.hosts import opened, record_of
from slurmfab.commands.checks.slurm import LIMIT_SECONDS
from slurmfab.commands.checks.user_jobs import state, submit
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.nodes.user_jobs import ENDED, WAITING

POLL_SECONDS = 0.1
SUSPICIOUS_SECONDS = 8
"""Seconds after which the node of a late job is checked for a running slurmd; slurmctld notices that much later."""

RECORD_SECONDS = 15  # seconds that slurmdbd may take to record the end of a job

SCRIPT = 'echo "job $SLURM_JOB_ID on $SLURM_JOB_NODELIST" && srun --input=none --mpi=none uname -n'
"""Prints job ID and node, and runs a job step, as most users' scripts do."""

NO_ACCOUNT = "Invalid account"
"""Slurm's error for a user who may not use the account (slurm_errno.h, ESLURM_INVALID_ACCOUNT)."""


def allocation(bench: Bench, node: str) -> str:
    """Submit a batch job to a node and follow it to its end."""
    home, name = bench.who.home, bench.who.name
    output = f"{home}/{bench.slurm.job_name}.out"
    begun = time.monotonic()
    number = submitted(bench, node, output)
    last = followed(bench, number, node, begun, to_start=True)
    began = time.monotonic() - begun
    last = last if last.state in ENDED else followed(bench, number, node, begun)
    ended = time.monotonic() - begun
    try:
        text, trouble = bench.read_output(output, node)
    finally:
        bench.sender.run(bench.who.line("rm", "-f", output))
    assert (last.state, last.code) == ("COMPLETED", "0:0"), (
        f"job {number} is {last.state} with exit code {last.code}: {trouble or text.strip() or 'no output'}. "
        f"Repair: see /var/log/slurmd/slurmd.log on {node}"
    )
    assert f"job {number} on {node}" in text, (
        f"job {number} completed, but its output {output} cannot be read: {trouble or 'it is empty'}. "
        f"Repair: the user {name} and {home} must exist on {node}; if slurmfab creates users, {FAB} deploy"
    )
    return (
        f"job {number} started after {began:.1f} s and ended after {ended:.1f} s; "
        f"its output was read{recorded(bench, number)}"
    )


def submitted(bench: Bench, node: str, output: str) -> str:
    """Submit the job as the user, and return its ID. Raises AssertionError if Slurm rejects the job."""
    place, options = bench.small_job(node)
    own = (f"--chdir={bench.who.home}", f"--output={output}", f"--wrap={SCRIPT}")
    number, complaint = submit(bench.sender, bench.who, (*options, *own))
    repair = node_state.repair_of(place.partition, complaint)
    if NO_ACCOUNT in complaint:
        repair = f"give {bench.who.name} an account (accounts, under users in the cluster file), then {FAB} deploy"
    assert number, f"Slurm rejects jobs of {bench.who.name}: {complaint}. Repair: {repair}"
    return number


def followed(bench: Bench, number: str, node: str, begun: float, *, to_start: bool = False) -> JobState:
    """Wait for a job's end, or its start; raises as `Work` if it takes too long since `begun` (monotonic)."""
    looked = False
    while True:
        one = state(bench.sender, number)
        if one.state in ENDED or (to_start and one.state not in WAITING):
            return one
        passed = time.monotonic() - begun
        if passed > SUSPICIOUS_SECONDS and not looked:
            looked = True
            trouble = trouble_on(bench, node)
            assert not trouble, f"job {number} makes no progress: {trouble}"
        reason = node_state.real_reason(one.reason)
        is_limited = passed > LIMIT_SECONDS and one.state in WAITING and node_state.is_limit(reason)
        if passed > bench.seconds or is_limited:
            raise_late(bench, number, node, one, min(passed, bench.seconds))
        time.sleep(POLL_SECONDS)


def raise_late(bench: Bench, number: str, node: str, one: JobState, passed: float) -> NoReturn:
    """Cancel a job that is late, or that a limit holds; AssertionError tells why, or a skip where others come first.

    `passed`: seconds since it was submitted.
    """
    bench.slurm.cancel()
    reason = node_state.real_reason(one.reason)
    if one.state in WAITING and reason.startswith(node_state.FOR_NODES):
        pytest.skip(f"job {number} did not start within {passed:.0f} s: other jobs come first ({reason}).")
    if one.state in WAITING and node_state.is_limit(reason):
        pytest.skip(f"job {number} did not start within {passed:.0f} s: a limit holds it ({reason}).")
    place = bench.slurm.place((node,))
    raise AssertionError(
        f"job {number} is {one.state} after {passed:.0f} s ({reason or 'no reason'}). "
        f"Repair: {node_state.repair_of(place.partition if place else '', reason)}; {FAB} check-cluster"
    )


def trouble_on(bench: Bench, node: str) -> str:
    """Why a node cannot run jobs, with the repair; empty if its slurmd runs."""
    try:
        with opened(bench.opener, bench.known, node) as host:
            state = host.run("systemctl is-active slurmd").stdout.strip()
    except HostError as error:
        return f"{node} is unreachable: {error.reason}"
    logs = f"see /var/log/slurmd/slurmd.log there; {FAB} check-cluster --hosts {node}"
    return "" if state in ("active", "reloading") else f"slurmd is {state or 'not installed'}. Repair: {logs}"


def recorded(bench: Bench, number: str) -> str:
    """Wait for slurmdbd's record of the job's end, and say so, if there is one; AssertionError if it is late."""
    if bench.cluster.database is None:
        return ""
    deadline = time.monotonic() + RECORD_SECONDS
    while True:
        state = bench.sender.run(record_of(number, "State", "ExitCode")).stdout.strip()
        if state == "COMPLETED|0:0":
            return "; its state in sacct is COMPLETED"
        assert time.monotonic() < deadline, (
            f"job {number} completed, but {RECORD_SECONDS} s later its state in sacct is “{state}”. "
            f"Repair: {FAB} check-cluster --only database,accounting"
        )
        time.sleep(POLL_SECONDS)
