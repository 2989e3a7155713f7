"""Slurm's texts as values: from real output of two versions, and of a large cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from slurm_output_files import VERSIONS, answer, big_cluster, seen, text
from slurm_tables import job_rows

from slurmfab.base.errors import AgentFailed
from slurmfab.base.json_output import as_json
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.snapshot import array_tasks, from_answer, gpu_count, jobs_from, readable
from slurmfab.on_hosts.agent.client.amounts import seconds_of


@pytest.mark.parametrize("version", VERSIONS)
def test_real_nodes_when_read_have_what_they_have_and_what_is_in_use(version: str) -> None:
    nodes = seen(version).by_name
    assert [(node.cpus, node.cpus_used, node.gpus, node.gpus_used) for node in nodes.values()] == [
        (2, 2, 2, 2), (2, 1, 2, 1), (2, 0, 0, 0),
    ]  # fmt: skip
    assert nodes["n1"].memory > nodes["n1"].memory_used == 200
    assert nodes["n1"].partitions == ("main",)
    assert nodes["n1"].version.startswith(version)
    assert nodes["n3"].state.reason == "fan is loud [x@y] State=IDLE"
    assert not nodes["n3"].state.is_in_service


@pytest.mark.parametrize("version", VERSIONS)
def test_real_jobs_when_read_have_their_gpus_however_they_were_asked_for(version: str) -> None:
    gpus = {job.name: (job.state, job.tasks, job.cpus, job.gpus) for job in seen(version).jobs}
    assert gpus == {
        "odd | name  with=State=DOWN": ("RUNNING", 1, 1, 1),
        "two": ("RUNNING", 1, 2, 2),
        "arr": ("PENDING", 20, 1, 2),
        "pernode": ("PENDING", 1, 2, 2),
        "pertask": ("PENDING", 1, 2, 2),
        "rootjob": ("PENDING", 1, 1, 0),
        "held": ("PENDING", 5, 1, 0),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_real_running_jobs_when_read_know_their_nodes_and_waiting_ones_their_reason(version: str) -> None:
    jobs = {job.name: job for job in seen(version).jobs}
    assert (jobs["two"].nodes, jobs["two"].reason) == (("n1", "n2"), "")
    assert (jobs["held"].nodes, jobs["held"].reason) == ((), "JobHeldUser")
    assert jobs["two"].seconds > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_real_partitions_and_controllers_when_read_are_what_they_are(version: str) -> None:
    snapshot = seen(version)
    (main,) = snapshot.partitions
    assert (main.name, main.is_default, main.state, main.max_time) == ("main", True, "UP", "1-00:00:00")
    assert [(one.host, one.role, one.is_up) for one in snapshot.controllers] == [("ctl", "primary", True)]
    assert snapshot.is_up


def test_slurmfabs_own_partition_when_read_is_left_out() -> None:
    own = "PartitionName=slurmfab AllowGroups=root Default=NO Hidden=YES MaxTime=01:00:00 State=UP\n"
    snapshot = from_answer(answer("24.11", partitions=text("24.11", "partitions") + own))
    assert [one.name for one in snapshot.partitions] == ["main"]


def test_two_controllers_when_the_first_is_down_are_both_told() -> None:
    ping = "Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n"
    snapshot = from_answer(answer("24.11", ping=ping))
    assert [(one.role, one.is_up) for one in snapshot.controllers] == [("primary", False), ("backup", True)]
    assert snapshot.is_up


def test_a_job_name_with_line_breaks_and_other_jobs_in_it_when_read_is_a_name() -> None:
    row = job_rows(text("22.05", "jobs"))[-1]
    forged = "x\n99|99|ann|main|RUNNING\u2028|\x1b[2J"
    (job,) = jobs_from([[*row[:-1], forged]])
    assert (job.id, job.name) == ("11", forged)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (["--partition=main", "1"], "is not the id of a job"),
        (["1", "1\n--partition=main"], "is not the id of a job"),
        (["1"], "shorter"),
    ],
)
def test_a_row_of_an_agent_that_is_no_job_when_read_is_refused_for_its_host(row: list[str], complaint: str) -> None:
    rest = job_rows(text("22.05", "jobs"))[-1][2:]
    with pytest.raises(AgentFailed, match=rf"^c1: .*{complaint}"), readable("c1"):
        jobs_from([[*row, *rest]])


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        ("(null)", 0),
        ("", 0),
        ("N/A", 0),
        ("gpu:2", 2),
        ("gpu:a100:2(S:0-1)", 2),
        ("gpu:a100:2(S:0,2),gpu:v100:1(S:1),shard:8", 3),
        ("gpu:a100:1(IDX:0,3),shard:a100:0(0/8)", 1),
        ("gres:gpu", 1),
        ("gres:gpu:tesla", 1),
        ("gres/gpu:a100=4", 4),
        ("cpu=4,mem=8G,gres/gpu=4,gres/gpu:a100=4", 4),
        ("gres/gpumem=8G,gres/gpuutil=90", 0),
    ],
)
def test_gpus_in_a_list_of_resources_when_counted_are_those_of_all_types(listed: str, count: int) -> None:
    assert gpu_count(listed) == count


@pytest.mark.parametrize(
    ("job_id", "tasks"), [("12", 1), ("12_3", 1), ("12_[1-20%2]", 20), ("12_[1,3,5-7]", 5), ("12_[0-30:10]", 4)]
)
def test_an_array_when_it_waits_counts_its_tasks(job_id: str, tasks: int) -> None:
    assert array_tasks(job_id) == tasks


@pytest.mark.parametrize(
    ("shown", "value"), [("0:05", 5), ("27:11", 1631), ("01:00:00", 3600), ("2-01:27:11", 178031), ("INVALID", 0)]
)
def test_a_time_of_slurms_when_read_gives_seconds(shown: str, value: int) -> None:
    assert (seconds_of(shown) or 0) == value


def calls_made_by(work: Callable[[], object]) -> int:
    """How many calls Python makes for some work: a measure of time that no load of the machine changes."""
    made = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_status_when_a_cluster_is_ten_times_as_large_then_takes_ten_times_the_work(version: str) -> None:
    small, large = big_cluster(version, nodes=60, jobs=120), big_cluster(version, nodes=600, jobs=1200)
    told = as_json(Status("big", from_answer(large), {}))
    assert (told["nodes"]["total"], told["jobs"]["running"]) == (600, 1200)

    def calls(answer: dict[str, Any]) -> int:
        return calls_made_by(lambda: as_json(Status("big", from_answer(answer), {})))

    assert calls(large) < 11 * calls(small)
    assert calls(large) < 200 * (600 + 1200)
