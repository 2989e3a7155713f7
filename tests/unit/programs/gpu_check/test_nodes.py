"""Nodes with GPUs, their thresholds, and the jobs that wait for them."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.states import NodeState
from slurmfab.on_hosts.programs.gpu_check.jobs import FIELDS, QueuedJob, queued_job, waiting
from slurmfab.on_hosts.programs.gpu_check.nodes import GpuNode, can_run, gpu_nodes, limits_of, reason_of, threshold
from slurmfab.on_hosts.programs.gpu_check.pairs import PairResults, culprits, further_pairs, ring


@pytest.mark.parametrize(
    ("limits", "gpus", "wanted"),
    [
        ({"a100": 120.0}, {"a100": 4}, 120.0),
        ({"a100": 120.0}, {"nvidia_a100-sxm4-40gb": 4}, 120.0),
        ({"A100": 120.0, "a100-pcie": 20.0}, {"nvidia_a100-pcie-40gb": 4}, 20.0),
        ({"a100": 120.0, "*": 9.0}, {"v100": 4}, 9.0),
        ({"a100": 120.0}, {"v100": 4}, None),
        ({"a100": 120.0, "h100": 300.0}, {"a100": 2, "h100": 2}, 120.0),
        ({}, {"a100": 4}, None),
    ],
)
def test_the_threshold_is_that_of_the_type_which_fits_best(
    limits: dict[str, float], gpus: dict[str, int], wanted: float | None
) -> None:
    assert threshold(limits, gpus) == wanted


def test_one_number_is_for_all_types() -> None:
    assert limits_of(120) == {"*": 120.0}
    assert limits_of(None) == {}


def test_a_reason_is_one_line_that_scontrol_takes() -> None:
    reason = reason_of('all_reduce fails: "x"\n' + "y" * 300)
    assert reason.startswith("slurmfab: gpu check: all_reduce fails: 'x' y")
    assert len(reason) < 230


def test_nodes_with_mig_instances_are_not_measured() -> None:
    class Slurm(Context):
        """A slurmctld that knows three nodes."""

        def must(self, *_: object, **__: object) -> str:  # type: ignore[override]
            return (
                "NodeName=n1 Gres=gpu:a100:4 State=IDLE\n"
                "NodeName=n2 Gres=gpu:a100_3g.20gb:2,gpu:a100_2g.10gb:4 State=IDLE\n"
                "NodeName=n3 State=IDLE\n"
            )

    assert [one.name for one in gpu_nodes(Slurm())] == ["n1"]


def node(state: str, reason: str = "") -> GpuNode:
    return GpuNode("n1", {"a100": 4}, ("main", "debug", "slurmfab"), NodeState(frozenset(state.split("+")), reason))


@pytest.mark.parametrize(
    ("state", "reason", "is_ours"),
    [
        ("IDLE+DRAIN", "slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120", True),
        ("ALLOCATED+DRAIN", "slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120", False),
        ("IDLE", "slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120", False),
        ("IDLE+DRAIN", "slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120 : Not responding", False),
        ("IDLE+DRAIN", "slurmfab: new board (ann@laptop 2026-11-21T09:00)", False),
        ("IDLE+DRAIN", "broken fan", False),
    ],
)
def test_only_an_empty_node_that_a_check_has_drained_is_measured_again(state: str, reason: str, is_ours: bool) -> None:
    assert node(state, reason).can_be_retested is is_ours


@pytest.mark.parametrize(
    ("up", "partition", "runs"),
    [
        ({"main", "debug", "slurmfab"}, "slurmfab", True),
        ({"main", "debug", "slurmfab"}, "debug", True),
        ({"debug"}, "slurmfab", False),
        ({"main"}, "debug", False),
        ({"main", "other"}, "other", False),
        (set(), "slurmfab", False),
    ],
)
def test_a_job_needs_a_partition_that_is_up_and_has_the_node(up: set[str], partition: str, runs: bool) -> None:
    assert can_run((node("IDLE"),), frozenset(up), partition) is runs


QUEUE = """\
12|PENDING|ann|main,debug|1||Resources|train|ing
13_4|PENDING|bob|main|2-4||Priority|x
14|PENDING|bob|main|1|n[1-2]|ReqNodeNotAvail, May be reserved for other job|x
15|PENDING|bob|main|1||Dependency|x
16|PENDING|bob|main|1||QOSMaxJobsPerUserLimit|x
17|RUNNING|ann|main|1||None|x
18|PENDING|slurm|main|1|n1|Resources|slurmfab-gpu-check-n1
19|RUNNING|slurm|main|1|n2|None|slurmfab-gpu-check-n2
"""


def queued(lines: str) -> list[QueuedJob]:
    return [queued_job(line.split("|", len(FIELDS) - 1)) for line in lines.splitlines()]


def test_jobs_of_others_that_wait_for_nodes_are_told_from_those_that_wait_for_something_else() -> None:
    jobs = queued(QUEUE)
    assert sorted(waiting(jobs)) == ["12", "13_4", "14"]
    assert [job.number for job in jobs if job.is_ours] == ["18", "19"]
    assert jobs[0].name == "train|ing"
    assert jobs[1].nodes == 2


def test_a_job_that_has_asked_for_other_nodes_is_no_reason_to_give_way() -> None:
    jobs = {job.number: job for job in queued(QUEUE.replace("n[1-2]", "n2"))}
    assert not jobs["14"].could_use(("n1",), frozenset({"main"}), Context())
    assert jobs["14"].could_use(("n2",), frozenset({"main"}), Context())
    assert jobs["12"].could_use(("n1",), frozenset({"debug"}), Context())
    assert not jobs["12"].could_use(("n1",), frozenset({"gpu"}), Context())


def test_pairs_are_neighbours_in_a_ring() -> None:
    assert ring(()) == ring(("n1",)) == []
    assert ring(("n1", "n2")) == [("n1", "n2")]
    assert ring(("n1", "n2", "n3", "n4")) == [("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1")]


def found_with(bad_nodes: set[str], count: int, broken_link: tuple[str, str] = ("", "")) -> PairResults:
    """The results after a ring and further pairs, if some nodes are bad with every partner."""

    def measured(found: PairResults, pairs: list[tuple[str, str]]) -> PairResults:
        bad = tuple(pair for pair in pairs if set(pair) & bad_nodes or pair == broken_link)
        good = tuple(pair for pair in pairs if pair not in bad)
        return PairResults((*found.good, *good), (*found.bad, *bad))

    first = measured(PairResults((), ()), ring([f"n{number}" for number in range(1, count + 1)]))
    return measured(first, list(further_pairs(first, lambda *_: True).values()))


@pytest.mark.parametrize(
    ("bad", "count", "guilty"),
    [
        ("", 6, []),
        ("n2", 3, ["n2"]),
        ("n2", 6, ["n2"]),
        ("n1 n3", 6, ["n1", "n3"]),
        ("n2 n3", 6, ["n2", "n3"]),
        ("n1", 2, []),
        ("n1 n2", 3, []),
    ],
    ids=str,
)
def test_the_node_that_falls_short_with_two_who_are_well_is_to_blame(bad: str, count: int, guilty: list[str]) -> None:
    assert culprits(found_with(set(bad.split()), count)) == guilty


def test_what_lies_between_two_nodes_that_are_well_with_others_blames_neither() -> None:
    assert culprits(found_with(set(), 4, ("n2", "n3"))) == []
