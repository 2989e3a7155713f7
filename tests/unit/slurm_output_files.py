"""What real Slurm printed, by version, and clusters made of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurm_tables import job_rows

from slurmfab.core.status.snapshot import Snapshot, from_answer
from slurmfab.on_hosts.agent.nodes.states import NodeState, record, state_of

VERSIONS = ("22.05", "24.11")
DIRECTORY = Path(__file__).parent / "slurm_output"
PARTS = ("ping", "nodes", "partitions", "jobs")


def text(version: str, name: str) -> str:
    """The text of one file."""
    return (DIRECTORY / version / f"{name}.txt").read_text(encoding="utf-8")


def answer(version: str, **other: str) -> dict[str, Any]:
    """An agent's answer, with other texts for some parts."""
    texts = {**{part: text(version, part) for part in PARTS}, "trouble": "", **other}
    return {**texts, "jobs": job_rows(texts["jobs"])}


def seen(version: str, **other: str) -> Snapshot:
    """The snapshot in such an answer."""
    return from_answer(answer(version, **other))


def odd_nodes(version: str) -> list[tuple[str, NodeState]]:
    """Nodes in unusual states: sinfo's short state of each, and what we make of the node's own line."""
    lines = text(version, "odd-nodes").splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return [(comment.split("|")[1], state_of(record(line))) for comment, line in pairs]


def big_cluster(version: str, nodes: int, jobs: int) -> dict[str, Any]:
    """An answer of a cluster of this size, in the words of real output."""
    node = text(version, "nodes").splitlines()[0]
    job = next(line for line in text(version, "jobs").splitlines() if "|RUNNING|" in line)
    return answer(
        version,
        nodes="".join(node.replace("NodeName=n1", f"NodeName=cn{number:04}") + "\n" for number in range(nodes)),
        jobs="".join(job.replace("|ann|", f"|u{number % 90}|").replace("|n1|", f"|cn{number % nodes:04}|") + "\n"
                     for number in range(jobs)),
    )  # fmt: skip
