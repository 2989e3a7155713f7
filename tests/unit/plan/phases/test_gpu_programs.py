"""What measures GPUs and what finds idle ones: on which hosts, with which settings, and how it goes away."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.paths import (
    GPU_CHECK_HISTORY,
    GPU_CHECK_PROGRAM,
    GPU_CHECK_SETTINGS,
    GPU_CHECK_UNIT,
    IDLE_GPUS_POLICY,
    IDLE_GPUS_PROGRAM,
    IDLE_GPUS_SETTINGS,
    IDLE_GPUS_STATE,
)
from slurmfab.cluster.facts import Gpu
from slurmfab.core.plan.phases import gpu_checks, idle_gpus
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

CHECK_TIMER, CHECK_SERVICE = f"{GPU_CHECK_UNIT}.timer", f"{GPU_CHECK_UNIT}.service"


def wanted(more: str, gpus: tuple[str, ...] = ("n1",), **facts: Any) -> PlanInput:
    """What is wanted where some nodes have a GPU."""
    whole = cluster(THREE_HOSTS + more)
    known = facts_of(whole, prepared, **facts)
    for host in gpus:
        known[host] = dataclasses.replace(known[host], gpus=(Gpu("/dev/nvidia0", "a100"),))
    return plan_input(whole, known)


def file_of(found: tuple[Resource, ...], path: str) -> str:
    return next(one.content for one in found if isinstance(one, File) and one.path == path)


def test_gpu_checks_run_on_the_primary_controller_by_a_timer() -> None:
    there = wanted("gpu_checks: {when: '03:30', wait: 10, minutes: 5}\n")
    found = gpu_checks.resources(there, "c1")
    assert [type(one) for one in found] == [Directory, Program, File, File, File, Timer]
    assert found[0] == Directory(GPU_CHECK_HISTORY, owner="slurm", group="slurm")
    settings = json.loads(file_of(found, GPU_CHECK_SETTINGS))
    assert (settings["partition"], settings["wait"], settings["directory"]) == (None, 10, GPU_CHECK_HISTORY)
    assert "when" not in settings
    assert "03:30" in file_of(found, gpu_checks.TIMER_FILE)
    assert "150" in file_of(found, gpu_checks.SERVICE_FILE), "10 + 4 * 5 + 120 minutes"
    assert gpu_checks.resources(there, "n1") == ()


def test_gpu_checks_on_request_alone_have_no_timer() -> None:
    never = "gpu_checks: {when: never}\n"
    assert Timer not in {type(one) for one in gpu_checks.resources(wanted(never), "c1")}
    had = gpu_checks.resources(wanted(never, services={CHECK_TIMER: "active"}), "c1")
    assert had[-2:] == (Service(CHECK_TIMER, running=False), Absent(gpu_checks.TIMER_FILE))


def test_gpu_checks_that_are_no_longer_wanted_go_with_their_units_last() -> None:
    services = {CHECK_TIMER: "active", CHECK_SERVICE: "inactive"}
    assert gpu_checks.resources(wanted("", services=services), "c1") == (
        Service(CHECK_TIMER, running=False),
        Absent(gpu_checks.TIMER_FILE),
        Service(GPU_CHECK_UNIT, running=False),
        Program(GPU_CHECK_PROGRAM, ()),
        Absent(GPU_CHECK_SETTINGS),
        Absent(gpu_checks.SERVICE_FILE),
    )
    without_timer = gpu_checks.resources(wanted("", services={CHECK_SERVICE: "inactive"}), "c1")
    assert without_timer[0] == Service(GPU_CHECK_UNIT, running=False)
    assert gpu_checks.resources(wanted(""), "c1") == ()


PARTITIONS = """\
own_partition: false
partitions:
  - {PartitionName: one, Nodes: n1}
  - {PartitionName: two, Nodes: n2}
  - {PartitionName: both, Nodes: ALL}
"""


@pytest.mark.parametrize(
    ("more", "gpus", "partition"),
    [
        ("", ("n1",), None),
        (PARTITIONS, ("n1",), "one"),
        (PARTITIONS, ("n2",), "two"),
        (PARTITIONS, ("n1", "n2"), "both"),
        (PARTITIONS, (), "both"),
        (PARTITIONS.replace("ALL", "n2"), ("n1", "n2"), "one"),
    ],
)
def test_jobs_of_gpu_checks_run_in_a_partition_of_the_nodes_with_gpus(
    more: str, gpus: tuple[str, ...], partition: str | None
) -> None:
    there = wanted(more + "gpu_checks: {}\n", gpus)
    assert gpu_checks.own_partition(there.cluster, there.lock) == partition
    settings = json.loads(file_of(gpu_checks.resources(there, "c1"), GPU_CHECK_SETTINGS))
    assert settings["partition"] == partition


def test_the_partition_of_the_cluster_file_counts_for_gpu_checks() -> None:
    there = wanted(f"{PARTITIONS}gpu_checks: {{partition: two}}\n")
    assert json.loads(file_of(gpu_checks.resources(there, "c1"), GPU_CHECK_SETTINGS))["partition"] == "two"


IDLE = "mail: {relay: smtp.example.org, from: slurm@example.org}\nidle_gpus: {after: 2h, mail: user, then: cancel}\n"


def owned_of(found: tuple[Resource, ...]) -> dict[str, str]:
    (files,) = (one for one in found if isinstance(one, OwnedFiles))
    return {one.path: one.text for one in files.files}


def test_a_node_with_gpus_watches_and_the_controller_decides() -> None:
    there = wanted(IDLE)
    node = idle_gpus.resources(there, "n1")
    assert [type(one) for one in node] == [Program, OwnedFiles, Service]
    assert json.loads(owned_of(node)[IDLE_GPUS_SETTINGS]) == {"node": "n1", "after": 7200}
    service = node[-1]
    assert isinstance(service, Service)
    assert IDLE_GPUS_SETTINGS in service.watches
    assert f"/etc/systemd/system/{idle_gpus.WATCHER}" in service.watches
    controller = idle_gpus.resources(there, "c1")
    assert [type(one) for one in controller] == [Directory, Program, OwnedFiles, Timer]
    assert controller[0] == Directory(IDLE_GPUS_STATE, owner="slurm", group="slurm")
    policy = json.loads(owned_of(controller)[IDLE_GPUS_POLICY])
    assert (policy["after"], policy["mail"], policy["then"], policy["state"]) == (
        7200,
        True,
        "cancel",
        f"{IDLE_GPUS_STATE}/told.json",
    )
    nobody = owned_of(idle_gpus.resources(wanted(IDLE.replace("mail: user", "mail: nobody")), "c1"))
    assert json.loads(nobody[IDLE_GPUS_POLICY])["mail"] is False
    assert idle_gpus.resources(there, "n2") == ()


def test_a_script_before_and_after_jobs_is_on_nodes_with_gpus_alone() -> None:
    there = wanted(IDLE)
    ((name, text),) = idle_gpus.script(there, "n1", "prolog")
    assert name == idle_gpus.SCRIPT
    assert text != idle_gpus.script(there, "n1", "epilog")[0][1]
    assert idle_gpus.script(there, "n2", "prolog") == idle_gpus.script(there, "c1", "prolog") == ()
    assert idle_gpus.script(wanted(""), "n1", "prolog") == ()


def test_units_that_a_host_has_and_should_not_have_end() -> None:
    both = {idle_gpus.TIMER: "active", idle_gpus.WATCHER: "active"}
    timer, watcher = Service(idle_gpus.TIMER, running=False), Service(idle_gpus.WATCHER, running=False)
    assert timer in idle_gpus.resources(wanted(IDLE, services=both), "n1")
    assert watcher not in idle_gpus.resources(wanted(IDLE, services=both), "n1")
    assert watcher in idle_gpus.resources(wanted(IDLE, services=both), "c1")
    had = wanted("", services=both, owned=("idle-gpus",))
    for host in ("c1", "n1", "n2"):
        found = idle_gpus.resources(had, host)
        assert found[:3] == (timer, watcher, Program(IDLE_GPUS_PROGRAM, ()))
        assert owned_of(found) == {}
    assert idle_gpus.resources(wanted("", services=both), "n1") == ()
