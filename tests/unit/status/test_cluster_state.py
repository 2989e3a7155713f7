"""A cluster in numbers: sums, groups and the JSON that scripts rely on."""

from __future__ import annotations

import json

import pytest
from json_shapes import assert_fits
from slurm_output_files import VERSIONS, answer, seen
from slurm_output_files import text as read

from slurmfab.base.json_output import as_json
from slurmfab.core.status.cluster_state import JobCount, Status, Usage, by_user, cpus, gpus


def renamed(nodes: str, **states: str) -> str:
    """The text of nodes, with a copy of n2 in each of these states."""
    line = next(line for line in nodes.splitlines() if line.startswith("NodeName=n2 "))
    copies = [line.replace("NodeName=n2", f"NodeName={name}").replace("State=MIXED", f"State={state}")
              for name, state in states.items()]  # fmt: skip
    return nodes + "\n".join(copies) + "\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_cpus_and_gpus_of_nodes_out_of_service_are_not_free(version: str) -> None:
    nodes = renamed(answer(version)["nodes"], n4="DOWN+NOT_RESPONDING", n5="MIXED+DRAIN")
    snapshot = seen(version, nodes=nodes)
    assert gpus(snapshot.nodes) == Usage(total=8, used=5, free=1, unavailable=2)
    assert cpus(snapshot.nodes) == Usage(total=10, used=5, free=1, unavailable=4)


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_in_the_same_state_for_the_same_reason_are_one_group(version: str) -> None:
    lost = answer(version)["nodes"].splitlines()[-1].replace("State=IDLE+DRAIN", "State=DOWN+NOT_RESPONDING")
    one = lost.partition(" Reason=")[0] + " Reason=Not responding [slurm@2026-11-21T08:00:{:02}]\n"
    text = "".join(one.format(number).replace("NodeName=n3", f"NodeName=n{number}") for number in (3, 1, 2))
    (group,) = Status("titanic", seen(version, nodes=text), {}).groups
    assert (group.state, group.nodes, group.reason) == ("down, not responding", ("n3", "n1", "n2"), "Not responding")
    assert (group.by, group.since) == ("slurm", "2026-11-21T08:00:01")


def test_a_reason_that_slurm_keeps_of_a_node_in_service_is_not_told() -> None:
    text = answer("24.11")["nodes"].replace("State=IDLE+DRAIN", "State=IDLE")
    assert [group.reason for group in Status("titanic", seen("24.11", nodes=text), {}).groups] == ["", "", ""]


@pytest.mark.parametrize("version", VERSIONS)
def test_users_are_told_by_what_they_hold(version: str) -> None:
    assert by_user(seen(version).jobs) == (JobCount("ann", 2, 22, 3, 3), JobCount("root", 0, 6, 0, 0))


def test_a_job_that_waits_for_two_partitions_counts_in_both() -> None:
    jobs = read("24.11", "jobs").replace("|main|PENDING|", "|main,debug|PENDING|")
    status = Status("titanic", seen("24.11", jobs=jobs), {})
    assert (status.by_partition["main"].pending, status.by_partition["debug"].pending) == (28, 28)
    assert (status.by_partition["main"].running, status.by_partition["debug"].running) == (2, 0)


def test_the_json_when_slurm_answers_has_the_documented_shape() -> None:
    told = json.loads(json.dumps(as_json(Status("titanic", seen("24.11"), {}, user="ann"))))
    assert list(told) == [
        "version", "cluster", "slurm", "error", "controllers", "nodes", "cpus", "gpus", "partitions", "users", "jobs",
        "lost_jobs", "open_records", "ended_jobs", "user",
    ]  # fmt: skip
    assert_fits("status", told)
    assert told["version"] == 1
    assert told["error"] == ""
    assert told["jobs"] == {"running": 2, "pending": 28}
    assert list(told["nodes"]["states"][0]) == ["state", "nodes", "count", "reason", "by", "since", "by_slurmfab"]
    assert list(told["partitions"][0]) == [
        "name", "default", "state", "max_time", "nodes", "cpus", "gpus", "running", "pending",
    ]  # fmt: skip
    assert [job["gpus"] for job in told["user"]["jobs"]] == [2, 2, 2, 1, 2]
    assert list(told["user"]["jobs"][0]) == [
        "id", "partitions", "name", "state", "tasks", "cpus", "gpus", "seconds", "cpu_seconds", "time_limit", "nodes",
        "reason",
    ]  # fmt: skip


def test_the_json_when_slurm_is_silent_has_the_same_keys_and_the_error() -> None:
    told = as_json(Status("titanic", seen("24.11", ping="Slurmctld(primary) at ctl is DOWN\n"), {}))
    assert told["error"].startswith("ctl: slurmctld does not answer.")
    assert told["controllers"] == [{"host": "ctl", "role": "primary", "up": False}]
