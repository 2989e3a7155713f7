"""Check of NCCL between the GPUs of one node: a short run of all_reduce_perf from nccl-tests."""

from __future__ import annotations

import shlex

import pytest

from slurmfab.commands.quickcheck.bench import Bench, memory_for
from slurmfab.commands.quickcheck.gpus import asked, gpus_in
from slurmfab.on_hosts.programs.gpu_check.jobs import PROGRAM_PATH
from slurmfab.on_hosts.programs.gpu_check.nccl_output import parse

PROGRAM = "all_reduce_perf"
SIZES = "-b 8M -e 512M -f 4 -n 5 -w 2"
"""Options of all_reduce_perf (README of nccl-tests): messages of 8 to 512 MiB, few repetitions, for a rough result."""

JOB_MEMORY = 3072  # MiB of the host's memory for each GPU: NCCL's buffers and CUDA's context


def nccl(bench: Bench, node: str) -> str:
    """Run all_reduce_perf on all GPUs of a node."""
    record = bench.records()[node]
    there = gpus_in(record)
    if there.used:
        pytest.skip(f"other jobs use GPUs of {node}.")
    program, variables = program_of(bench)
    command = (
        f'program=$(PATH="{PROGRAM_PATH}:$PATH" command -v -- {shlex.quote(program)}) '
        "|| { echo no program; exit 0; }; "
        f'{shlex.join(["env", *variables])} "$program" {SIZES} -g {there.total} 2>&1; echo "exit code $?"'
    )
    memory = memory_for(record, JOB_MEMORY, there.total)
    output = bench.run((node,), command, memory=memory, options=(f"--gres={asked(there)}",))
    if output.startswith("no program"):
        pytest.skip(
            f"{program} of nccl-tests is not installed on {node}; "
            "if it is elsewhere, set gpu_checks.program in the cluster file."
        )
    found = parse(output)
    lines = [line for line in output.strip().splitlines() if line.strip()]
    assert found is not None, f"{program} printed no results: {lines[-2] if len(lines) > 1 else lines[-1]}."
    assert not found.failure, f"{found.failure}. Repair: see `dmesg` on {node} for Xid errors"
    assert not found.wrong, f"{found.wrong} values are wrong. Repair: a GPU or link of {node} is broken; see `dmesg`"
    size = f"{found.size / 2**20:.0f} MiB"
    speed = f"{found.busbw:.1f} GB/s bus bandwidth" if there.total > 1 else "no bus between GPUs"
    return f"all_reduce over {there.description}: {speed} at {size}, no value wrong"


def program_of(bench: Bench) -> tuple[str, tuple[str, ...]]:
    """The program, and its environment as NAME=VALUE, by `gpu_checks` in the cluster file; else `PROGRAM`."""
    checks = bench.cluster.gpu_checks
    if checks is None:
        return PROGRAM, ()
    return checks.program, tuple(f"{name}={value}" for name, value in checks.environment.items())
