"""How much of a partition's QOS is used: from slurmdbd's limits and slurmctld's counts to lines for people."""

from __future__ import annotations

import io
from typing import Any

import pytest

from slurmfab.base.json_output import as_json
from slurmfab.core.status import text
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.limits import UsedLimit, figures_of, limits_from
from slurmfab.core.status.snapshot import Snapshot, from_answer
from slurmfab.on_hosts.programs.user_tools.use import amounts

PARTITIONS = (
    "PartitionName=main AllowAccounts=ALL QoS=N/A Default=YES\n"
    "PartitionName=gpu AllowAccounts=physics,maths QoS=gpus State=UP\n"
    "PartitionName=gpu-long DenyAccounts=art QoS=gpus State=UP\n"
    "PartitionName=art AllowAccounts=art QoS=artists State=UP\n"
    "PartitionName=slurmfab AllowGroups=root AllowAccounts=ALL QoS=N/A Hidden=YES State=UP\n"
)
QOS = "normal|||||||||\ngpus|2|9|cpu=8,gres/gpu=4||gres/gpu=6|||8|gres/gpu=8,mem=10G\nartists|1||||||||\n"
USAGE = [
    ["gpus", "all", "", "GrpTRES", "cpu=N(9),mem=10240(300),gres/gpu=8(7)"],
    ["gpus", "account", "physics", "MaxTRESPA", "cpu=N(4),gres/gpu=6(5)"],
    ["gpus", "user", "", "MaxJobsPU", "2(1)"],
    ["gpus", "user", "", "MaxSubmitJobsPU", "9(3)"],
    ["gpus", "user", "", "MaxTRESPU", "cpu=8(4),mem=N(50),gres/gpu=4(4),gres/gpu:a100=N(4)"],
]
ANSWER: dict[str, Any] = {
    "ping": "Slurmctld(primary) at ctl is UP\n",
    "partitions": PARTITIONS,
    "associations": "physics||normal|normal||||||\n",
    "qos": QOS,
    "usage": USAGE,
}


def lines(**more: Any) -> list[str]:
    """The lines of `status --user ann` about what she uses."""
    seen = from_answer({**ANSWER, **more})
    out = io.StringIO()
    text.write(Status("lab", seen, {}, has_database=True), "ann", out)
    return [line for line in out.getvalue().splitlines() if "sing " in line]


def test_what_a_user_uses_of_a_partitions_limits_is_told_as_slurmctld_counts_it() -> None:
    assert lines() == [
        "Using 4/8 CPUs allowed on partitions gpu, gpu-long",
        "Using 4/4 GPUs allowed on partitions gpu, gpu-long",
        "Using 1/2 jobs allowed on partitions gpu, gpu-long",
        "Using 3/9 submitted jobs allowed on partitions gpu, gpu-long",
        "Account physics: using 5/6 GPUs allowed on partitions gpu, gpu-long",
        "All users together: using 7/8 GPUs allowed on partitions gpu, gpu-long",
        "All users together: using 300/10240 MiB of memory allowed on partitions gpu, gpu-long",
        "All users together: using 0/8 jobs allowed on partitions gpu, gpu-long",
    ]


def test_a_limit_of_which_nothing_is_used_yet_is_told_too() -> None:
    alone = "PartitionName=gpu AllowAccounts=ALL QoS=gpus State=UP\n"
    assert "Using 0/4 GPUs allowed on partition gpu" in lines(usage=[], partitions=alone)


@pytest.mark.parametrize(
    "more",
    [
        {"partitions": "PartitionName=main QoS=N/A State=UP\n"},
        {"partitions": "PartitionName=art AllowAccounts=art QoS=artists State=UP\n"},
        {"associations": ""},
    ],
    ids=["no QOS", "not for the user", "no account"],
)
def test_where_no_partition_of_the_user_has_a_qos_nothing_is_told(more: dict[str, str]) -> None:
    assert lines(**more) == []


def test_the_partitions_qos_is_among_the_limits_and_in_json() -> None:
    limits = limits_from(ANSWER, [{"PartitionName": "gpu", "AllowAccounts": "ALL", "QoS": "gpus"}])
    assert limits is not None
    assert [one.name for one in limits.qos] == ["normal", "gpus"]
    told = as_json(Status("lab", Snapshot(limits=limits), {}, has_database=True, user="ann"))["user"]["limits"]
    place = {"partitions": ["gpu"], "qos": "gpus", "scope": "user", "account": ""}
    assert told["used"][1] == {**place, "resource": "GPUs", "used": 4, "limit": 4}


def test_a_limit_that_is_used_up_is_known() -> None:
    limit = UsedLimit(("gpu",), "gpus", "user", "", "GPUs", 4, 4)
    assert (limit.is_used_up, limit.text) == (True, "Using 4/4 GPUs allowed on partition gpu")
    assert not UsedLimit(("gpu",), "gpus", "user", "", "GPUs", 3, 4).is_used_up


@pytest.mark.parametrize(
    ("value", "counted", "found"),
    [
        ("", "", {}),
        ("5", "jobs", {"jobs": 5}),
        ("cpu=4,node=2,gres/gpu:a100=1,license/x=3", "", {"CPUs": 4, "nodes": 2, "a100 GPUs": 1, "license/x": 3}),
        ("mem=1.50T", "", {"MiB of memory": 1572864}),
    ],
)
def test_limits_are_read_as_sacctmgr_prints_them(value: str, counted: str, found: dict[str, int]) -> None:
    assert amounts(value, counted) == found


def test_figures_are_read_as_scontrol_prints_them() -> None:
    assert figures_of("N(3)", "jobs") == {"jobs": 3}
    assert figures_of("cpu=N(0),gres/gpu:a100=2(1)", "") == {"CPUs": 0, "a100 GPUs": 1}
    assert figures_of("", "jobs") == {}
