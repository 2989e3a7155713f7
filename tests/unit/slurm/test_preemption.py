"""What slurm.conf says so that preemption works as partitions and QOS declare it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurmfab.cluster.slurm.preemption import Preemption, partition_settings, preemption

LOW, HIGH = {"PriorityTier": "1", "PreemptMode": "REQUEUE"}, {"PriorityTier": "10"}
URGENT: Mapping[str, str] = {"Preempt": "normal,scavenger"}
BY_PARTITION = Preemption("preempt/partition_prio", "REQUEUE", requeues=True, partitions_default_to_off=True)


def test_partitions_of_two_tiers_preempt_when_the_lower_one_has_a_mode() -> None:
    assert preemption([LOW, HIGH], [], {}) == BY_PARTITION


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param([], id="no partitions"),
        pytest.param([{}, {"Default": "YES"}], id="nothing is said"),
        pytest.param([{"PriorityTier": "1"}, HIGH], id="tiers without a mode only order the queue"),
        pytest.param([{"PreemptMode": "REQUEUE"}, {}], id="one tier"),
        pytest.param([{**LOW, "PreemptMode": "OFF"}, HIGH], id="off"),
        pytest.param([{"PriorityTier": "1"}, {**HIGH, "PreemptMode": "REQUEUE"}], id="nobody is above"),
    ],
)
def test_partitions_of_which_none_gives_way_preempt_nothing(partitions: list[Mapping[str, str]]) -> None:
    assert preemption(partitions, [], {}) is None


def test_a_tier_that_is_not_said_is_1_and_its_old_name_counts() -> None:
    assert preemption([{"preemptmode": "requeue"}, {"Priority": "5"}], [], {}) == BY_PARTITION


@pytest.mark.parametrize(
    ("declared", "mode", "requeues"),
    [
        (["CANCEL"], "CANCEL", False),
        (["SUSPEND"], "SUSPEND,GANG", False),
        (["suspend,gang"], "SUSPEND,GANG", False),
        (["CANCEL", "REQUEUE"], "REQUEUE", True),
        (["SUSPEND", "REQUEUE"], "SUSPEND,GANG", True),
    ],
)
def test_the_clusters_mode_lets_each_declared_one_work(declared: list[str], mode: str, requeues: bool) -> None:
    partitions = [{"PriorityTier": "1", "PreemptMode": one} for one in declared]
    found = preemption([*partitions, HIGH], [], {})
    assert found is not None
    assert (found.mode, found.requeues) == (mode, requeues)


@pytest.mark.parametrize(
    ("qos", "mode"),
    [
        ([URGENT, {}], "REQUEUE"),
        ([URGENT, {"PreemptMode": "cancel"}], "CANCEL"),
        ([URGENT, {"PreemptMode": "cluster"}], "REQUEUE"),
        ([URGENT, {"PreemptMode": "Suspend"}], "SUSPEND,GANG"),
    ],
)
def test_a_qos_that_names_others_preempts_them(qos: list[Mapping[str, str]], mode: str) -> None:
    found = preemption([{}], qos, {})
    assert found is not None
    assert (found.type, found.mode, found.partitions_default_to_off) == ("preempt/qos", mode, False)


@pytest.mark.parametrize("nobody", ["-1", "none"])
def test_a_qos_that_names_nobody_preempts_nobody(nobody: str) -> None:
    assert preemption([{}], [{"Preempt": nobody}], {}) is None


@pytest.mark.parametrize(
    "own",
    [{"PreemptType": "preempt/qos"}, {"preempttype": None}, {"PreemptMode": "GANG"}, {"PreemptMode": "OFF"}],
)
def test_who_sets_the_type_or_a_mode_that_preempts_nobody_is_left_alone(own: Mapping[str, str | None]) -> None:
    assert preemption([LOW, HIGH], [], own) is None


def test_the_users_mode_for_the_whole_cluster_is_that_of_partitions_that_say_nothing() -> None:
    found = preemption([LOW, HIGH], [], {"PreemptMode": "CANCEL"})
    assert found == Preemption("preempt/partition_prio", "CANCEL", requeues=True, partitions_default_to_off=False)
    assert partition_settings(HIGH, found) == HIGH


def test_a_partition_that_says_nothing_does_not_give_way_because_another_does() -> None:
    assert partition_settings({"PriorityTier": "5"}, BY_PARTITION) == {"PriorityTier": "5", "PreemptMode": "OFF"}
    assert partition_settings(LOW, BY_PARTITION) == LOW
    assert partition_settings(HIGH, None) == HIGH
