"""Checks of a job's environment, and of a job on two nodes."""

from __future__ import annotations

import re

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.test_jobs import hostname, widest_partition
from slurmfab.commands.quickcheck.bench import Bench

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
        "SLURM_JOB_ID is not set": found.get("SLURM_JOB_ID", "").isdigit(),
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
