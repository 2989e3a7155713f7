"""Check of shared homes: what a job writes that a user submitted at home is there, where the user submitted it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from slurmfab.base.errors import HostError
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.opener import opened
from slurmfab.commands.checks.user_jobs import Person, person, read, submit
from slurmfab.commands.quickcheck import batch
from slurmfab.commands.quickcheck.bench import Bench

SCRIPT = 'echo "directory=$(pwd -P)"; echo "on=$(uname -n)"'  # prints where the job runs

READ_SECONDS = 30
"""Seconds in which the submitting host has to see the output: it may remember for a while that there was no file."""

POLL_SECONDS = 0.2


def homes(bench: Bench, node: str) -> str:
    """Submit a batch job at home as an ordinary user, without options for its output, and read that where it is."""
    who = somebody(bench)
    own = bench if who == bench.who else replace(bench, who=who)
    begun = time.monotonic()
    number, complaint = submit(own.sender, who, (*own.small_job(node)[1], f"--wrap={SCRIPT}"), directory=who.home)
    assert number, (
        f"{who.name} cannot submit a job in {who.home} on {own.sender.name}: {complaint}. "
        f"Repair: {FAB} check-cluster --only storage,people,limits"
    )
    output = f"{who.home}/slurm-{number}.out"
    try:
        last = batch.followed(own, number, node, begun)
        assert last.state == "COMPLETED", (
            f"job {number} of {who.name} is {last.state}. Repair: see /var/log/slurmd/slurmd.log on {node}; "
            f"{FAB} check-cluster --only storage,people"
        )
        text = awaited(own, output)
        assert text, f"{elsewhere(own, node, output)}. Repair: {FAB} check-cluster --only storage"
    finally:
        own.slurm.cancel()
        own.sender.run(who.line("rm", "-f", output))
    found = dict(line.partition("=")[::2] for line in text.splitlines())
    return f"job {number} of {who.name} ran in {found.get('directory', who.home)}; {own.sender.name} read its output"


def somebody(bench: Bench) -> Person:
    """The user who submits: with a shared home, or the cluster's first; skips if nobody can."""
    cluster, directory = bench.cluster, bench.cluster.homes
    if directory is None:
        pytest.skip("the cluster file has no homes.")
    if bench.sender.name not in cluster.workplaces:
        pytest.skip(f"jobs come from {bench.sender.name}, where no homes are: no login host answers.")
    if bench.who.home.startswith(f"{directory}/"):
        return bench.who
    for user in cluster.users:
        fields = bench.sender.run("getent passwd %s", user.name).stdout
        if f":{directory}/" in fields and (user.accounts or not cluster.has_accounts):
            return person(bench.sender, user.name)
    pytest.skip(f"no user of the cluster file who may submit jobs has a home in {directory}; name one with --user.")


def awaited(bench: Bench, output: str) -> str:
    """Wait until the submitting host sees the job's output, and return it; empty if it does not in time."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        text = str(bench.sender.run(bench.who.line("cat", output)).stdout)
        if text.strip() or time.monotonic() > deadline:
            return text.strip()
        time.sleep(POLL_SECONDS)


def elsewhere(bench: Bench, node: str, output: str) -> str:
    """Why the output is not there, as far as the job's node knows; one that is there only is removed."""
    why = f"{bench.sender.name} does not see {output}, which the job on {node} wrote {READ_SECONDS} s ago"
    try:
        with opened(bench.opener, bench.known, node) as host:
            _, trouble = read(host, bench.who, output)
            disk = host.run("findmnt -n -o SOURCE --target %s", bench.who.home).stdout.strip()
    except HostError:
        return why
    return why if trouble else f"{why}: it is in {bench.who.home} of {node} alone, on {disk or 'its own disk'}"
