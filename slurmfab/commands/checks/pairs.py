"""Runs two jobs on one node at the same time, for checks that they are isolated from each other."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import line_of
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.on_hosts.agent.client import commands

ALONE = "slurmfab-check-alone"  # output of a job that did not see the other job start
TRIES = 100  # how often a job looks for the other job, every 0.2 s: longer than the other may wait for its resources

BOTH = (
    'n=0; until [ "$({states} | grep -c "^{mark} [^P]")" -ge 2 ]; '
    f"do n=$((n+1)); if [ $n -gt {TRIES} ]; then echo {ALONE}; exit 0; fi; sleep 0.2; done; "
)
"""Waits until both jobs with this comment have started, so that each keeps its resources until then."""


def side_by_side(
    slurm: Slurm, node: str, command: str, options: Sequence[str] = ()
) -> tuple[CommandResult, CommandResult]:
    """Run a command by `sh -c` in two jobs on one node, once both have started; both results.

    Raises AssertionError if Slurm did not run them; skips without room for both.
    """
    record = slurm.node_as_found(node)
    if int(record["CPUTot"]) < 2 * int(record["ThreadsPerCore"]):
        raise DoesNotApply(f"{node} has only one core")
    mark = f"pair-{secrets.token_hex(4)}"
    script = BOTH.format(states=line_of(commands.own_states(slurm.job_name)), mark=mark) + command
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(slurm.run, (node,), script, options=(*options, f"--comment={mark}")) for _ in range(2)]
        first, second = (one.result() for one in running)
    if ALONE in first.stdout + second.stdout:
        pytest.skip(f"{node} had no room for two small jobs at once.")
    return first, second
