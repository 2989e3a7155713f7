"""Kinds of jobs on a twin: how they are cut to its nodes."""

from __future__ import annotations

import pytest

from slurmfab.commands.rehearse.workload import MOST_KINDS, TwinJob, Workload, fit
from slurmfab.core.status.snapshot import Node
from slurmfab.on_hosts.agent.accounting.job_shapes import Shape
from slurmfab.on_hosts.agent.nodes.states import NodeState

ANN = Shape("ann", 4001, "physics", "main", "normal", "", 1, 1, 0, "", 60, 9, 900, 0)


def node(name: str, *partitions: str, gpus: int = 0) -> Node:
    """A node with 2 CPUs and 1 GiB."""
    return Node(name, NodeState(frozenset({"IDLE"})), 2, 0, gpus, 0, 1024, 0, partitions, "24.11")


NODES = (node("n1", "main", "all"), node("n2", "main", "gpu", "all", gpus=2))


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, "--nodes=1 --ntasks=1 --cpus-per-task=1 --account=physics --partition=main --qos=normal"),
        ({"nodes": 2, "cpus": 4, "memory": 2048},
         "--nodes=2 --ntasks=2 --cpus-per-task=2 --account=physics --partition=main --qos=normal --mem=1024M"),
        ({"nodes": 40, "cpus": 640, "memory": 4096000},
         "--nodes=2 --ntasks=2 --cpus-per-task=2 --account=physics --partition=main --qos=normal --mem=1024M"),
        ({"partition": "gpu", "gres": "gpu:a100:8", "nodes": 2, "cpus": 2},
         "--nodes=1 --ntasks=1 --cpus-per-task=1 --account=physics --partition=gpu --qos=normal --gres=gpu:a100:2"),
        ({"partition": "gone", "nodes": 3, "cpus": 96},
         "--nodes=3 --ntasks=3 --cpus-per-task=32 --account=physics --partition=gone --qos=normal"),
        ({"partition": "gone,main", "cpus": 3, "features": "big&new", "account": "", "qos": ""},
         "--nodes=1 --ntasks=1 --cpus-per-task=2 --partition=gone,main --constraint=big&new"),
    ],
)  # fmt: skip
def test_a_kind_when_fitted_asks_for_no_more_than_the_nodes_of_its_partitions_have(
    asked: dict[str, object], options: str
) -> None:
    [job] = fit(Workload(shapes=(ANN._replace(**asked),)), NODES)  # type: ignore[arg-type]
    assert " ".join(job.options) == options


def test_a_kind_that_is_cut_keeps_what_it_asked_for() -> None:
    wide = ANN._replace(nodes=40, cpus=80)
    small, cut = fit(Workload(shapes=(ANN, wide)), NODES)
    assert (small.whole, cut.whole, cut.shape.nodes) == (None, wide._replace(cpus=2), 2)


def test_a_twin_gets_the_first_kinds_of_many() -> None:
    shapes = tuple(ANN._replace(minutes=number) for number in range(MOST_KINDS + 10))
    assert [job.shape for job in fit(Workload(shapes=shapes), NODES)] == list(shapes[:MOST_KINDS])


def test_a_kind_is_told_by_whose_it_is() -> None:
    assert TwinJob(ANN._replace(qos="")).title == "ann, account physics, partition main"
