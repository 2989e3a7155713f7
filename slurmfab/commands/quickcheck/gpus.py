"""Check that jobs get as many GPUs of each type as they request."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from slurmfab.base.program_name import FAB
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.gpu_probe import job_script, parse_job
from slurmfab.commands.quickcheck.bench import Bench, memory_for
from slurmfab.on_hosts.agent.client.amounts import UNTYPED, gpus_of
from slurmfab.on_hosts.agent.nodes.states import flags
from slurmfab.on_hosts.programs.gpu_check.jobs import PROGRAM_PATH
from slurmfab.on_hosts.programs.gpu_check.nccl_output import parse

HARDWARE = f"see `dmesg` there; the GPU has fallen off its bus, or the driver is not loaded. Then {FAB} check-cluster"

PROGRAM = "all_reduce_perf"

SIZES = "-b 8M -e 512M -f 4 -n 5 -w 2"
"""Options of all_reduce_perf (README of nccl-tests): messages of 8 to 512 MiB, few repetitions, for a rough result."""

JOB_MEMORY = 3072  # MiB of the host's memory for each GPU: NCCL's buffers and CUDA's context


class Gpus(NamedTuple):
    """The GPUs of a node in Slurm's record, by type; the type of an untyped GPU is empty."""

    counts: Mapping[str, int]
    taken: Mapping[str, int]  # those that jobs use

    @property
    def total(self) -> int:
        """The number of GPUs."""
        return sum(self.counts.values())

    @property
    def used(self) -> int:
        """The number of GPUs that jobs use."""
        return sum(self.taken.values())

    @property
    def free(self) -> int:
        """The number of free GPUs."""
        return self.total - self.used

    @property
    def description(self) -> str:
        """The counts by type, as in `4 a100 and 2 v100`."""
        return " and ".join(f"{count} {kind or 'GPUs'}" for kind, count in self.counts.items())


def gpus_in(record: Mapping[str, str]) -> Gpus:
    """The GPUs in Slurm's record of a node.

    >>> gpus_in({"Gres": "gpu:a100:4(S:0-1),shard:8", "GresUsed": "gpu:a100:1(IDX:0)"}).free
    3
    """
    return Gpus(counted(record.get("Gres", "")), counted(record.get("GresUsed", "")))


def counted(gres: str) -> dict[str, int]:
    """The number of GPUs by type in Slurm's list of generic resources; untyped GPUs have an empty type."""
    return {"" if kind == UNTYPED else kind: count for kind, count in gpus_of(gres).items()}


def nodes_of_each_kind(bench: Bench) -> dict[str, tuple[str, ...]]:
    """Nodes with GPUs by those that they have (`4 a100`); each by its own name if the user named nodes."""
    kinds: dict[str, tuple[str, ...]] = {}
    for name, record in bench.records().items():
        description = gpus_in(record).description
        if description:
            key = name if bench.is_each else description
            kinds[key] = (*kinds.get(key, ()), name)
    return kinds


def chosen(bench: Bench, nodes: Sequence[str]) -> str:
    """The node with the most free GPUs, of nodes with the same ones; raises as `Work`."""
    records = bench.records()
    if all(is_kept_away(records[name]) for name in nodes):
        reason = records[nodes[0]].get("Reason", "")
        pytest.skip(f"{nodes[0]} is out of service: {reason.partition(' [')[0] or 'drained without a reason'}.")
    free = bench.free(nodes)
    best = max(free, key=lambda name: gpus_in(records[name]).free)
    if gpus_in(records[best]).free < 1:
        pytest.skip(f"other jobs use all GPUs of {best}.")
    return best


def is_kept_away(record: Mapping[str, str]) -> bool:
    """Whether an admin has drained a node, for a reason that is neither Slurm's own nor slurmfab's."""
    is_drained = "DRAIN" in flags(record.get("State", ""))
    reason = record.get("Reason", "")
    return is_drained and not node_state.has_less(record) and not reason.startswith("slurmfab:")


def gpus(bench: Bench, node: str) -> str:
    """Run a job with one GPU for each type on a node, and, if no GPU is in use, a job with all of them."""
    there = gpus_in(bench.records()[node])
    tried = []
    for kind, count in there.counts.items():
        if there.taken.get(kind, 0) < count:
            probe_job(bench, node, 1, f"--gres=gpu:{kind}:1" if kind else "--gres=gpu:1")
            tried.append(f"one {kind or 'GPU'}")
    if there.used:
        return f"{in_jobs(tried)}; not with all {there.total}, because jobs use {there.used}"
    if there.total == 1:
        return in_jobs(tried)
    try:
        listed = probe_job(bench, node, there.total, f"--gres={asked(there)}")
    except pytest.skip.Exception as held:
        if not tried:
            raise
        return f"{in_jobs(tried)}; not with all {there.total}: {str(held.msg).rstrip('.')}"
    return in_jobs([*tried, f"all {there.total}"]) + (f"; nvidia-smi lists {listed}" if listed else "")


def in_jobs(tried: Sequence[str]) -> str:
    """The jobs that ran, by their GPUs, as in `jobs with one a100, one l4 and all 2`."""
    if len(tried) == 1:
        return f"a job with {tried[0]}"
    return f"jobs with {', '.join(tried[:-1])} and {tried[-1]}"


def asked(there: Gpus) -> str:
    """The value of --gres for all GPUs of a node."""
    return ",".join(":".join(filter(None, ("gpu", kind, str(count)))) for kind, count in there.counts.items())


def probe_job(bench: Bench, node: str, count: int, option: str) -> int:
    """How many GPUs nvidia-smi, if there is one, lists in a job with `option`, such as `--gres=gpu:1`."""
    lock = bench.known.lock.hosts.get(node)
    known = {gpu.file: gpu.slot for gpu in lock.gpus} if lock else {}
    found = parse_job(bench.run((node,), job_script(tuple(known), opens=False), options=(option,)))
    gone = [known.get(file, file) for file in found.gone]
    rest = "is gone, but Slurm still counts it" if len(gone) == 1 else "are gone, but Slurm still counts them"
    assert not gone, f"{' and '.join(gone)} {rest}. Repair: {HARDWARE} --hosts {node}"
    visible = len(found.visible)
    assert visible == count, (
        f"a job that requested {count} GPUs ({option}) was given {visible}. "
        f"Repair: {FAB} check-cluster --hosts {node} --only gpus"
    )
    listed = len([line for line in found.listed if line.startswith("GPU ")])
    assert not found.listed or listed >= count, (
        f"in a job that requested {count} GPUs, nvidia-smi lists {listed}: {found.listed[-1]}. "
        f"Repair: {HARDWARE} --hosts {node}"
    )
    return listed


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
