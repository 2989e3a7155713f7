"""Two jobs on one node at the same time: what one of them may not see of the other."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.checks.slurm import Slurm

ALONE = "slurmfab-check-alone"
TRIES = 100
"""How often a job looks for the other one, five times a second: longer than that one may wait."""

BOTH = (
    'n=0; until [ "$(squeue --noheader --states=all --name={name} --format="%k %T" | grep -c "^{mark} [^P]")" -ge 2 ]; '
    f"do n=$((n+1)); if [ $n -gt {TRIES} ]; then echo {ALONE}; exit 0; fi; sleep 0.2; done; "
)
"""Waits until both jobs with this mark have what they asked for; each keeps its own until it has seen the other."""


def side_by_side(
    slurm: Slurm, node: str, command: str, options: Sequence[str] = ()
) -> tuple[CommandResult, CommandResult]:
    """What two jobs with this command leave that have parts of one node at the same time.

    Args:
        slurm: Slurm.
        node: the node's name.
        command: for `sh -c`, run when both have begun.
        options: more of srun's.

    Raises:
        AssertionError: Slurm did not run them.
        pytest.skip.Exception: the node has no room for both.
    """
    record = slurm.node_as_found(node)
    if int(record["CPUTot"]) < 2 * int(record["ThreadsPerCore"]):
        pytest.skip(f"{node} has one core only.")
    mark = f"pair-{secrets.token_hex(4)}"
    script = BOTH.format(name=slurm.job_name, mark=mark) + command
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(slurm.run, (node,), script, options=(*options, f"--comment={mark}")) for _ in range(2)]
        first, second = (one.result() for one in running)
    if ALONE in first.stdout + second.stdout:
        pytest.skip(f"{node} had no room for two small jobs at once.")
    return first, second
