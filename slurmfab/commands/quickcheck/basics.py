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
    """Check the environment of a job with one task and without GPUs.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError: the environment is wrong, or the job failed.
        pytest.skip.Exception: other jobs use the resources.
    """
    found = dict(re.findall(r"^(\w+)=(.*)$", bench.run((node,), ENVIRONMENT), re.MULTILINE))
    problems = tuple(problem for problem in environment_problems(bench, node, found) if problem)
    assert not problems, f"{'; '.join(problems)}. Repair: {FAB} check-cluster --hosts {node}"
    return (
        f"job {found['SLURM_JOB_ID']} of {found['user']} in {found['directory']} with {found['SLURM_NTASKS']} task, "
        f"TMPDIR {found.get('TMPDIR') or 'not set'}, srun in PATH, no GPU"
    )


def environment_problems(bench: Bench, node: str, found: dict[str, str]) -> tuple[str, ...]:
    """Problems with the environment of a job; an empty text for each item that is right.

    Args:
        node: the node on which the job ran.
        found: the job's output, by the names in `ENVIRONMENT`.
    """
    name = hostname(bench.known.lock, node)
    home, visible = bench.who.home, found.get("CUDA_VISIBLE_DEVICES", "")
    expected = {"SLURM_JOB_NODELIST": node, "SLURM_NTASKS": "1", "user": bench.who.name}
    return (
        *(
            f"{key} is “{found.get(key, '')}” instead of “{value}”"
            for key, value in expected.items()
            if found.get(key) != value
        ),
        "" if found.get("SLURM_JOB_ID", "").isdigit() else "SLURM_JOB_ID is not set",
        ""
        if found.get("host", "").split(".")[0] == name
        else f"the hostname in the job is {found.get('host')} instead of {name}",
        ""
        if found.get("directory") == home
        else f"{home} does not exist, so the job started in {found.get('directory')}",
        "" if found.get("srun") else "srun is not in PATH",
        ""
        if found.get("writable")
        else f"{found.get('TMPDIR', 'the directory for temporary files')} cannot be written to",
        "" if visible in NO_GPUS else f"CUDA_VISIBLE_DEVICES is {visible}, but the job requested no GPU",
    )


def two_nodes(bench: Bench, nodes: tuple[str, ...]) -> str:
    """Run one job with a task on each of two nodes.

    Args:
        nodes: names of the nodes with room for a job.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError: the job failed, or did not run on both nodes.
        pytest.skip.Exception: no two nodes of one partition have room.
    """
    pair = pair_of(bench, nodes)
    seen = {line.split(".")[0] for line in bench.run(pair, "uname -n").split()}
    missing = [name for name in pair if hostname(bench.known.lock, name) not in seen]
    assert not missing, (
        f"the job did not run on {fold(missing)}. Repair: see /var/log/slurmd/slurmd.log on {fold(missing)}"
    )
    return f"one job with a task on each of {fold(pair)}"


def pair_of(bench: Bench, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Two nodes of one partition.

    Args:
        nodes: names of the nodes with room for a job.

    Raises:
        pytest.skip.Exception: no two nodes of one partition have room.
    """
    if len(bench.nodes) < 2:  # noqa: PLR2004 - a pair
        pytest.skip(f"{fold(bench.nodes)} is the only node that may be used.")
    pair = widest_partition(bench.cluster, nodes)[:2]
    if len(pair) < 2:  # noqa: PLR2004 - a pair
        states = {name: record.get("State", "UNKNOWN") for name, record in bench.records().items() if name not in nodes}
        others = ", ".join(f"{name} is {state}" for name, state in list(states.items())[:3])
        pytest.skip(f"no two nodes of one partition have room{f'; {others}' if others else ''}.")
    return pair
