"""NCCL between the GPUs of one node: all_reduce_perf of nccl-tests, with messages that take a moment."""

from __future__ import annotations

import shlex

import pytest

from slurmfab.programs.gpu_check_jobs import PLACES
from slurmfab.programs.nccl_output import parse
from slurmfab.quickcheck.bench import Bench, memory_for
from slurmfab.quickcheck.gpus import asked, gpus_in

PROGRAM = "all_reduce_perf"
SIZES = "-b 8M -e 512M -f 4 -n 5 -w 2"
"""Messages from 8 to 512 MiB, few times each: whether it works, and roughly how fast (nccl-tests, README)."""

MEMORY = 3072
"""MiB of the host's memory for each GPU: NCCL's buffers and CUDA's context."""


def nccl(bench: Bench, node: str) -> str:
    """Run all_reduce_perf on all GPUs of a node.

    Returns:
        What was seen.

    Raises:
        AssertionError: it failed, or its values are wrong.
        pytest.skip.Exception: there is no such program, or other jobs are in the way.
    """
    record = bench.records()[node]
    there = gpus_in(record)
    if there.used:
        pytest.skip(f"other jobs have GPUs of {node}.")
    program, variables = program_of(bench)
    command = (
        f'program=$(PATH="{PLACES}:$PATH" command -v -- {shlex.quote(program)}) || {{ echo no program; exit 0; }}; '
        f'{shlex.join(["env", *variables])} "$program" {SIZES} -g {there.total} 2>&1; echo "exit code $?"'
    )
    memory = memory_for(record, MEMORY, there.total)
    said = bench.run((node,), command, memory=memory, options=(f"--gres={asked(there)}",))
    if said.startswith("no program"):
        pytest.skip(f"{program} of nccl-tests is not there; gpu_checks.program in the cluster file says where it is.")
    found = parse(said)
    words = [line for line in said.strip().splitlines() if line.strip()]
    assert found is not None, f"{program} printed no figures: {words[-2] if len(words) > 1 else words[-1]}."
    assert not found.failure, f"{found.failure}. Repair: see `dmesg` on {node} for Xid errors"
    assert not found.wrong, f"{found.wrong} values are wrong. Repair: a GPU or link of {node} is broken; see `dmesg`"
    size = f"{found.size / 2**20:.0f} MiB"
    return f"all_reduce over {there.words}: {found.busbw:.1f} GB/s bus bandwidth at {size}, no value wrong"


def program_of(bench: Bench) -> tuple[str, tuple[str, ...]]:
    """The program, and variables for it as in `NAME=VALUE`: the cluster file's, or what is in PATH."""
    checks = bench.cluster.gpu_checks
    if checks is None:
        return PROGRAM, ()
    return checks.program, tuple(f"{name}={value}" for name, value in checks.environment.items())
