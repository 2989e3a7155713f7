"""Check of shared homes: what a job writes that a user submitted at home is there, where the user submitted it."""

from __future__ import annotations

import shlex
import time

import pytest

from slurmfab.base.errors import HostError
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.quickcheck import batch
from slurmfab.commands.quickcheck.bench import Bench, Person, person
from slurmfab.on_hosts.agent.client import commands

SCRIPT = 'echo "directory=$(pwd -P)"; echo "on=$(uname -n)"'
"""Prints where the job runs."""

READ_SECONDS = 30
"""Seconds in which the submitting host has to see the output: it may remember for a while that there was no file."""

POLL_SECONDS = 0.2


def homes(bench: Bench, node: str) -> str:
    """Submit a batch job at home as an ordinary user, without options for its output, and read that where it is.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError: the job failed, or its output is not in the user's home on the submitting host.
        pytest.skip.Exception: no ordinary user has a home there, or other jobs use the resources.
    """
    who = somebody(bench)
    own = bench if who == bench.who else of(bench, who)
    begun = time.monotonic()
    number = submitted(own, node)
    output = f"{who.home}/slurm-{number}.out"
    try:
        last = batch.seen(own, number, node, begun, batch.has_ended)
        assert last.state == "COMPLETED", (
            f"job {number} of {who.name} is {last.state}. Repair: see /var/log/slurmd/slurmd.log on {node}; "
            f"{FAB} check-cluster --only storage,people"
        )
        text = awaited(own, output)
        assert text, f"{elsewhere(own, node, output)}. Repair: {FAB} check-cluster --only storage"
    finally:
        own.slurm.cancel()
        own.sender.run(own.as_person("rm", "-f", output))
    found = dict(line.partition("=")[::2] for line in text.splitlines())
    return f"job {number} of {who.name} ran in {found.get('directory', who.home)}; {own.sender.name} read its output"


def somebody(bench: Bench) -> Person:
    """The user who submits: the one of the other jobs if its home is a shared one, or else the first of the cluster.

    Raises:
        pytest.skip.Exception: nobody has a home there, or nobody with an account where jobs need one.
    """
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


def of(bench: Bench, who: Person) -> Bench:
    """The same cluster under test for another user."""
    return Bench(
        bench.known, bench.sender, who, bench.nodes, opener=bench.opener, seconds=bench.seconds, is_each=bench.is_each
    )


def submitted(bench: Bench, node: str) -> str:
    """Submit the job from the user's home; its ID.

    Raises:
        AssertionError: the home cannot be entered, or Slurm rejects the job.
    """
    slurm, who = bench.slurm, bench.who
    slurm.has_run_jobs = True
    place = slurm.place((node,))
    assert place is not None, f"{node} is in no partition. Repair: add it to one in the cluster file, then {FAB} deploy"
    words = (
        *("timeout", str(batch.SUBMIT_SECONDS), "sbatch", "--parsable", f"--job-name={slurm.job_name}", "--time=5"),
        *("--ntasks=1", *place.options, slurm.memory_option((node,)), f"--nodelist={node}", f"--wrap={SCRIPT}"),
    )
    script = f"cd {shlex.quote(who.home)} && exec {shlex.join(words)}"
    done = bench.sender.run(bench.as_person("sh", "-c", script), seconds=batch.SUBMIT_SECONDS + 10)
    number = str(done.stdout.strip().rpartition("\n")[2].partition(";")[0])
    is_submitted = done.rc == 0 and commands.is_job_id(number)
    assert is_submitted, (
        f"{who.name} cannot submit a job in {who.home} on {bench.sender.name}: {last_words(done)}. "
        f"Repair: {FAB} check-cluster --only storage,people,limits"
    )
    return number


def awaited(bench: Bench, output: str) -> str:
    """Wait until the submitting host sees the job's output, and return it; empty if it does not in time."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        done = bench.sender.run(bench.as_person("cat", output))
        if done.rc == 0 and done.stdout.strip():
            return str(done.stdout)
        if time.monotonic() > deadline:
            return ""
        time.sleep(POLL_SECONDS)


def elsewhere(bench: Bench, node: str, output: str) -> str:
    """Why the output is not there, as far as the job's node knows; one that is there only is removed."""
    why = f"{bench.sender.name} does not see {output}, which the job on {node} wrote {READ_SECONDS} s ago"
    try:
        with bench.opener(bench.known, (node,)) as shells:
            shell = shells[node]
            if isinstance(shell, HostError):
                return why
            done = CheckedHost(node, shell).run(bench.as_person("sh", "-c", f"cat {output} && rm {output}"))
            there = CheckedHost(node, shell).run("findmnt -n -o SOURCE --target %s", bench.who.home).stdout.strip()
    except HostError:
        return why
    return f"{why}: it is in {bench.who.home} of {node} alone, on {there or 'its own disk'}" if done.rc == 0 else why
