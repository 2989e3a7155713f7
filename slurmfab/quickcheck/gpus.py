"""GPUs in jobs: as many as were asked for, of each type, and NCCL between those of a node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from slurmfab.checks import node_state
from slurmfab.quickcheck.bench import Bench

LOOK = (
    'for name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES; do eval "echo visible=\\$$name"; done; '
    "for file in {files}; do test -c $file || echo gone=$file; done; "
    "if command -v nvidia-smi >/dev/null; then nvidia-smi -L 2>&1 | sed 's/^/smi=/'; fi"
)
"""Prints the GPUs that the job is told of, the node's device files that are gone, and what nvidia-smi lists."""

HARDWARE = "see `dmesg` there; the GPU has fallen off its bus, or the driver is not loaded. Then fab check-cluster"


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a node, as Slurm counts them.

    Args:
        counts: how many, by type; an untyped one has an empty type.
        taken: how many of them jobs have, by type.
    """

    counts: Mapping[str, int]
    taken: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def used(self) -> int:
        """Those that jobs have."""
        return sum(self.taken.values())

    @property
    def free(self) -> int:
        """Those that no job has."""
        return self.total - self.used

    @property
    def words(self) -> str:
        """As in `4 a100 and 2 v100`."""
        return " and ".join(f"{count} {kind or 'GPUs'}" for kind, count in self.counts.items())


def gpus_in(record: Mapping[str, str]) -> Gpus:
    """The GPUs of a node by its record.

    >>> gpus_in({"Gres": "gpu:a100:4(S:0-1),shard:8", "GresUsed": "gpu:a100:1(IDX:0)"}).free
    3
    """
    counts = counted(record.get("Gres", ""))
    return Gpus(counts, counted(record.get("GresUsed", "")))


def counted(gres: str) -> dict[str, int]:
    """The number of GPUs by type in Slurm's list of generic resources."""
    counts: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *kind, count = entry.split(":") if ":" in entry else (entry, "1")
        if name == "gpu":
            counts[":".join(kind)] = counts.get(":".join(kind), 0) + int(count if count.isdigit() else 1)
    return counts


def nodes_of_each_kind(bench: Bench) -> dict[str, tuple[str, ...]]:
    """By each kind of GPUs (`4 a100`), the nodes that have just these; empty where there are no GPUs.

    Where the user has named the nodes, each is a kind of its own.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    for name, record in bench.records().items():
        words = gpus_in(record).words
        if words:
            key = name if bench.is_each else words
            kinds[key] = (*kinds.get(key, ()), name)
    return kinds


def chosen(bench: Bench, nodes: Sequence[str]) -> str:
    """The node, of these that are alike, with most GPUs free.

    Raises:
        pytest.skip.Exception: other jobs have all, or an admin has taken the nodes out of service.
        AssertionError: none takes jobs.
    """
    records = bench.records()
    if all(is_kept_away(records[name]) for name in nodes):
        reason = records[nodes[0]].get("Reason", "")
        pytest.skip(f"{nodes[0]} is out of service: {reason.partition(' [')[0] or 'drained without a reason'}.")
    free = bench.free(nodes)
    best = max(free, key=lambda name: gpus_in(records[name]).free)
    if gpus_in(records[best]).free < 1:
        pytest.skip(f"other jobs have all GPUs of {best}.")
    return best


def is_kept_away(record: Mapping[str, str]) -> bool:
    """Whether an admin has drained a node, for a reason that is neither Slurm's own nor slurmfab's."""
    is_drained = "DRAIN" in node_state.flags(record.get("State", ""))
    reason = record.get("Reason", "")
    return is_drained and not node_state.has_less(record) and not reason.startswith("slurmfab:")


def gpus(bench: Bench, node: str) -> str:
    """Run a job with one GPU of each type of a node, and one with all of them.

    Returns:
        What was seen.

    Raises:
        AssertionError: a job has not the GPUs that it asked for.
        pytest.skip.Exception: other jobs are in the way.
    """
    there = gpus_in(bench.records()[node])
    tried = []
    for kind, count in there.counts.items():
        if there.taken.get(kind, 0) < count:
            look(bench, node, 1, f"--gres=gpu:{kind}:1" if kind else "--gres=gpu:1")
            tried.append(f"one {kind or 'GPU'}")
    if there.used:
        return f"{in_jobs(tried)}; not with all {there.total}, for jobs have {there.used}"
    if there.total == 1:
        return in_jobs(tried)
    listed = look(bench, node, there.total, f"--gres={asked(there)}")
    return in_jobs([*tried, f"all {there.total}"]) + (f"; nvidia-smi lists {listed}" if listed else "")


def in_jobs(tried: Sequence[str]) -> str:
    """What jobs had, as in `jobs with one a100, one l4 and all 2`."""
    if len(tried) == 1:
        return f"a job with {tried[0]}"
    return f"jobs with {', '.join(tried[:-1])} and {tried[-1]}"


def asked(there: Gpus) -> str:
    """All GPUs of a node as --gres wants them."""
    return ",".join(":".join(filter(None, ("gpu", kind, str(count)))) for kind, count in there.counts.items())


def look(bench: Bench, node: str, count: int, option: str) -> int:
    """Run a job with some GPUs.

    Args:
        bench: the cluster.
        node: where.
        count: how many it asks for.
        option: with which it asks.

    Returns:
        How many GPUs nvidia-smi lists in the job; 0 where there is none.

    Raises:
        AssertionError: the job has not as many.
        pytest.skip.Exception: other jobs are in the way.
    """
    lock = bench.known.lock.hosts.get(node)
    known = {gpu.file: gpu.slot for gpu in lock.gpus} if lock else {}
    text = bench.run((node,), LOOK.format(files=" ".join(known) or "/dev/null"), options=(option,))
    said = re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)
    gone = [known.get(value, value) for name, value in said if name == "gone"]
    rest = "is gone, and Slurm still counts it" if len(gone) == 1 else "are gone, and Slurm still counts them"
    assert not gone, f"{' and '.join(gone)} {rest}. Repair: {HARDWARE} --hosts {node}"
    told = (value.split(",") for name, value in said if name == "visible")
    visible = max((len([word for word in words if word]) for words in told), default=0)
    assert visible == count, (
        f"a job that asked for {count} GPUs ({option}) is told of {visible}. "
        f"Repair: fab check-cluster --hosts {node} --only gpus"
    )
    lines = [value for name, value in said if name == "smi"]
    listed = len([line for line in lines if line.startswith("GPU ")])
    assert not lines or listed >= count, (
        f"a job that asked for {count} GPUs sees {listed} by nvidia-smi: {lines[-1]}. Repair: {HARDWARE} --hosts {node}"
    )
    return listed
