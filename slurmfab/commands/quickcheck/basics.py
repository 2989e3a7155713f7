"""Checks of a job's environment, modules, directory and home, and of a job on two nodes."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import replace

import pytest

from slurmfab.base.errors import HostError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.hosts import opened, person
from slurmfab.commands.checks.test_jobs import hostname, widest_partition
from slurmfab.commands.checks.user_jobs import read, submit
from slurmfab.commands.quickcheck import batch
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.on_hosts.agent.nodes.user_jobs import Person

SHOWN = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "CUDA_VISIBLE_DEVICES", "TMPDIR")
ENVIRONMENT = (
    f"for name in {' '.join(SHOWN)}; do "
    'eval "set=\\${$name+set} value=\\$$name"; if [ "$set" ]; then echo "$name=$value"; fi; done; '
    'echo "host=$(uname -n)"; echo "user=$(id -un)"; echo "directory=$(pwd)"; echo "srun=$(command -v srun)"; '
    'if touch "${TMPDIR:-/tmp}/.$SLURM_JOB_ID" && rm "${TMPDIR:-/tmp}/.$SLURM_JOB_ID"; then echo writable=yes; fi'
)
"""Prints the environment of a job, as NAME=VALUE lines; unset variables are left out."""

NO_GPUS = ("", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES in a job without GPUs (Slurm's src/interfaces/gres.c), if it is set."""

LOAD = """
for directory in {directories}; do
    for name in $(MODULEPATH=$directory module --terse avail 2>&1 | grep -v -e ':$' -e '/$' | head -n 1); do
        name=${{name%%(*}}
        module load "$name" && module --terse list 2>&1 | grep -q -F -- "$name" && echo "loaded=$name" && exit
        echo "failed=$name"
        exit
    done
done
echo empty
"""
"""Loads the first module of the directories, and prints what became of it; for a login shell of bash."""

USED = (
    'echo text > "${name}/file" && grep -qx text "${name}/file" && '
    'echo "directory=${name} mode=$(stat -c %a "${name}")"'
)
"""Writes into the directory, and tells which it is."""

GONE = "for try in $(seq 100); do test -e {directory} || exit 0; sleep 0.1; done; exit 1"
"""Waits for the end of the epilog, which runs after srun has ended."""

SCRIPT = 'echo "directory=$(pwd -P)"; echo "on=$(uname -n)"'  # prints where the job runs

READ_SECONDS = 30
"""Seconds in which the submitting host has to see the output: it may remember for a while that there was no file."""

POLL_SECONDS = 0.2


def environment(bench: Bench, node: str) -> str:
    """Check the environment of a job with one task and without GPUs."""
    found = dict(re.findall(r"^(\w+)=(.*)$", bench.run((node,), ENVIRONMENT), re.MULTILINE))
    problems = environment_problems(bench, node, found)
    assert not problems, f"{'; '.join(problems)}. Repair: {FAB} check-cluster --hosts {node}"
    return (
        f"job {found['SLURM_JOB_ID']} of {found['user']} in {found['directory']} with {found['SLURM_NTASKS']} task, "
        f"TMPDIR {found.get('TMPDIR') or 'not set'}, srun in PATH, no GPU"
    )


def environment_problems(bench: Bench, node: str, found: dict[str, str]) -> list[str]:
    """Problems with the environment of a job. `found`: the job's output, by the names in `ENVIRONMENT`."""
    name, home, visible = hostname(bench.known.lock, node), bench.who.home, found.get("CUDA_VISIBLE_DEVICES", "")
    expected = {"SLURM_JOB_NODELIST": node, "SLURM_NTASKS": "1", "user": bench.who.name}
    problems = {
        f"{key} is “{found.get(key, '')}” instead of “{value}”": found.get(key) == value
        for key, value in expected.items()
    }
    problems |= {
        "SLURM_JOB_ID is not set": found.get("SLURM_JOB_ID", "").isdecimal(),
        f"the hostname in the job is {found.get('host')} instead of {name}": found.get("host", "").split(".")[0]
        == name,
        f"{home} does not exist, so the job started in {found.get('directory')}": found.get("directory") == home,
        "srun is not in PATH": bool(found.get("srun")),
        f"{found.get('TMPDIR', 'the directory for temporary files')} cannot be written to": "writable" in found,
        f"CUDA_VISIBLE_DEVICES is {visible}, but the job requested no GPU": visible in NO_GPUS,
    }
    return [problem for problem, is_well in problems.items() if not is_well]


def two_nodes(bench: Bench) -> str:
    """Run one job with a task on each of two nodes."""
    pair = pair_of(bench)
    seen = {line.split(".")[0] for line in bench.run(pair, "uname -n").split()}
    missing = [name for name in pair if hostname(bench.known.lock, name) not in seen]
    assert not missing, (
        f"the job did not run on {fold(missing)}. Repair: see /var/log/slurmd/slurmd.log on {fold(missing)}"
    )
    return f"one job with a task on each of {fold(pair)}"


def pair_of(bench: Bench) -> tuple[str, ...]:
    """Two nodes of one partition with room for a job; raises as `Work`."""
    free = bench.free()
    if len(bench.nodes) < 2:  # noqa: PLR2004 - a pair
        pytest.skip(f"{fold(bench.nodes)} is the only node that may be used.")
    pair = widest_partition(bench.cluster, free)[:2]
    if len(pair) < 2:  # noqa: PLR2004 - a pair
        states = {name: record.get("State", "UNKNOWN") for name, record in bench.records().items() if name not in free}
        others = ", ".join(f"{name} is {state}" for name, state in list(states.items())[:3])
        pytest.skip(f"no two nodes of one partition have room{f'; {others}' if others else ''}.")
    return pair


def modules(bench: Bench, node: str) -> str:
    """Load a module in a job, by a batch script as users write it."""
    wanted = bench.cluster.modules
    if wanted is None or not wanted.path:
        pytest.skip(f"the cluster file has no {'modules.path' if wanted else 'modules'}.")
    directories = " ".join(map(shlex.quote, wanted.path))
    printed = bench.run((node,), f"exec bash -lc {shlex.quote(LOAD.format(directories=directories))}")
    words = dict(line.partition("=")[::2] for line in printed.splitlines() if "=" in line)
    if "empty" in printed.splitlines():
        pytest.skip(f"there are no modules in {', '.join(wanted.path)}.")
    assert "loaded" in words, (
        f"the module {words.get('failed', '')} was not loaded: {(printed.strip().splitlines() or ['no output'])[0]}. "
        f"Repair: {FAB} check-cluster --only modules --hosts {node}"
    )
    return f"a job loaded the module {words['loaded']} ({wanted.system})"


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
