"""What every job needs: its environment where it runs, and steps on two nodes at once."""

from __future__ import annotations

import re

import pytest

from slurmfab.checks.test_jobs import hostname, widest_partition
from slurmfab.hostlist import fold
from slurmfab.quickcheck.bench import Bench

SHOWN = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "CUDA_VISIBLE_DEVICES", "TMPDIR")
ENVIRONMENT = (
    f"for name in {' '.join(SHOWN)}; do "
    'eval "set=\\${$name+set} value=\\$$name"; if [ "$set" ]; then echo "$name=$value"; fi; done; '
    'echo "host=$(uname -n)"; echo "user=$(id -un)"; echo "directory=$(pwd)"; echo "srun=$(command -v srun)"; '
    'if touch "${TMPDIR:-/tmp}/.$SLURM_JOB_ID" && rm "${TMPDIR:-/tmp}/.$SLURM_JOB_ID"; then echo writable=yes; fi'
)
"""Prints what a job finds, a name and a value in each line; of variables only those that are set."""

NO_GPUS = ("", "NoDevFiles")
"""What CUDA_VISIBLE_DEVICES says to a job without GPUs (Slurm's src/interfaces/gres.c), where it is set at all."""


def environment(bench: Bench, node: str) -> str:
    """Look around in a job of one task without GPUs.

    Returns:
        What was seen.

    Raises:
        AssertionError: something is not as a job needs it.
        pytest.skip.Exception: other jobs are in the way.
    """
    found = dict(re.findall(r"^(\w+)=(.*)$", bench.run((node,), ENVIRONMENT), re.MULTILINE))
    complaints = tuple(complaint for complaint in wrong(bench, node, found) if complaint)
    assert not complaints, f"{'; '.join(complaints)}. Repair: fab check-cluster --hosts {node}"
    return (
        f"job {found['SLURM_JOB_ID']} of {found['user']} in {found['directory']} with {found['SLURM_NTASKS']} task, "
        f"TMPDIR {found.get('TMPDIR') or 'not set'}, srun in PATH, no GPU"
    )


def wrong(bench: Bench, node: str, found: dict[str, str]) -> tuple[str, ...]:
    """What is not as a job needs it, by what the job has printed; empty texts for what is."""
    name = hostname(bench.known.lock, node)
    home, visible = bench.who.home, found.get("CUDA_VISIBLE_DEVICES", "")
    expected = {"SLURM_JOB_NODELIST": node, "SLURM_NTASKS": "1", "user": bench.who.name}
    return (
        *(
            f"{key} is “{found.get(key, '')}” and not “{value}”"
            for key, value in expected.items()
            if found.get(key) != value
        ),
        "" if found.get("SLURM_JOB_ID", "").isdigit() else "SLURM_JOB_ID is not set",
        "" if found.get("host", "").split(".")[0] == name else f"the job's host calls itself {found.get('host')}",
        "" if found.get("directory") == home else f"{home} is not there, so the job began in {found.get('directory')}",
        "" if found.get("srun") else "srun is not in PATH",
        "" if found.get("writable") else f"{found.get('TMPDIR', 'the folder for temporary files')} takes no files",
        "" if visible in NO_GPUS else f"CUDA_VISIBLE_DEVICES is {visible}, and the job asked for no GPU",
    )


def two_nodes(bench: Bench, nodes: tuple[str, ...]) -> str:
    """Run one job with a task on each of two nodes.

    Args:
        bench: the cluster.
        nodes: those with room.

    Returns:
        What was seen.

    Raises:
        AssertionError: a task did not run where it should.
        pytest.skip.Exception: there are no two nodes for it.
    """
    if len(bench.nodes) < 2:  # noqa: PLR2004 - a pair
        pytest.skip(f"{fold(bench.nodes)} is the only node there is to use.")
    pair = widest_partition(bench.cluster, nodes)[:2]
    if len(pair) < 2:  # noqa: PLR2004 - a pair
        states = {name: record.get("State", "UNKNOWN") for name, record in bench.records().items() if name not in nodes}
        others = ", ".join(f"{name} is {state}" for name, state in list(states.items())[:3])
        pytest.skip(f"no two nodes of one partition have room{f'; {others}' if others else ''}.")
    seen = {line.split(".")[0] for line in bench.run(pair, "uname -n").split()}
    missing = [name for name in pair if hostname(bench.known.lock, name) not in seen]
    assert not missing, (
        f"the job did not run on {fold(missing)}. Repair: see /var/log/slurm/slurmd.log on {fold(missing)}"
    )
    return f"one job with a task on each of {fold(pair)}"
