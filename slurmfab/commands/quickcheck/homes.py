"""Checks of directories: what a job writes at home is there afterwards, and a job has scratch of its own."""

from __future__ import annotations

import re
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
    """The user who submits: the one of the other jobs if its home is a shared one, or else the first of the cluster.

    Raises pytest.skip.Exception if nobody has a home there, or nobody with an account where jobs need one.
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


USED = (
    'echo text > "${name}/file" && grep -qx text "${name}/file" && '
    'echo "directory=${name} mode=$(stat -c %a "${name}")"'
)
"""Writes into the directory, and tells which it is."""

GONE = "for try in $(seq 100); do test -e {directory} || exit 0; sleep 0.1; done; exit 1"
"""Waits for the end of the epilog, which runs after srun has ended."""


def chosen(bench: Bench, nodes: tuple[str, ...]) -> str:
    """A node with room for a job whose jobs have directories; raises as `Work`."""
    wanted = bench.cluster.scratch
    there = tuple(node for node in nodes if wanted and wanted.of_node(node))
    if not there:
        pytest.skip(f"the cluster file has no scratch{' for these nodes' if wanted else ''}.")
    return bench.free(there)[0]


def scratch(bench: Bench, node: str) -> str:
    """Write into the directory of a job, and see that it is removed."""
    wanted = bench.cluster.scratch
    assert wanted is not None, "chosen has found a node"
    printed = bench.run((node,), USED.replace("name", wanted.variable), options=("--gres=scratch:1",))
    found = re.search(r"^directory=(\S+) mode=(\d+)$", printed, re.MULTILINE)
    log = f"Repair: see journalctl -t slurmfab-scratch on {node}; {FAB} deploy --hosts {node}"
    assert found, f"the job could not write into ${wanted.variable}. {log}"
    directory, mode = found.groups()
    assert re.fullmatch(rf"{re.escape(wanted.path)}/\d+", directory), (
        f"the job found {directory} in ${wanted.variable}, which is not below {wanted.path}. {log}"
    )
    assert mode == "700", f"{directory} has mode {mode}, so other users can enter it. {log}"
    try:
        with opened(bench.opener, bench.known, node) as host:
            is_gone = host.run(GONE.format(directory=directory)).rc == 0
    except HostError:
        return f"a job wrote into {directory}; whether that is gone is not known, as {node} does not answer"
    assert is_gone, f"{directory} is still there after its job. {log}"
    return f"a job wrote into {directory}, which is gone after it"
