"""The key `idle_gpus`: what it may say, and what it makes of nodes and of the controller."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.errors import ClusterFileError
from slurmfab.base.paths import IDLE_GPUS_POLICY, IDLE_GPUS_POLICY_UNIT, IDLE_GPUS_SETTINGS, IDLE_GPUS_UNIT
from slurmfab.cluster.facts import Gpu
from slurmfab.core.plan.phases import idle_gpus
from slurmfab.core.plan.phases.scripts import own_scripts
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

KEY = "idle_gpus: {after: 2h, mail: nobody, then: cancel, spare: [ann]}\n"
WHOLE = (Gpu("/dev/nvidia0", "h100"),)
PARTS = (Gpu("/dev/nvidia0", "h100_1g.10gb", with_files=("/dev/nvidia-caps/nvidia-cap3",)),)
OF_AMD = (Gpu("/dev/dri/renderD128", "mi250x"),)


def planned(host: str, gpus: tuple[Gpu, ...] = WHOLE, key: str = KEY, **facts: object) -> tuple[Resource, ...]:
    known = cluster(THREE_HOSTS + key)
    found = facts_of(known, prepared, gpus=gpus, **facts)
    return idle_gpus.resources(plan_input(known, found), host)


def kinds(found: tuple[Resource, ...]) -> list[str]:
    return [type(one).__name__ for one in found]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("{after: 5m}", "after"),
        ("{after: soon}", '"soon" is not a time such as 90s, 30m, 2h or 1d'),
        ("{grace: 60, mail: nobody}", "grace"),
        ("{mail: user}", "users get mail only with the key mail at the top; or write mail: nobody"),
        ("{mail: nobody, then: kill}", "then"),
        ("{mail: nobody, partitions: [gpu]}", '"gpu" is not a partition (main)'),
    ],
)
def test_a_policy_when_it_cannot_be_carried_out_then_it_is_refused(said: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(THREE_HOSTS + f"idle_gpus: {said}\n")
    assert words in str(refused.value)


def test_a_node_when_it_has_whole_nvidia_gpus_then_a_service_looks_at_them() -> None:
    found = planned("n1")
    assert kinds(found) == ["Program", "OwnedFiles", "Service"]
    files = {one.path: one.text for one in found[1].files}  # type: ignore[attr-defined]
    assert json.loads(files[IDLE_GPUS_SETTINGS]) == {"node": "n1", "after": 7200}
    assert "User=slurm\n" in files[f"/etc/systemd/system/{IDLE_GPUS_UNIT}.service"]


@pytest.mark.parametrize("gpus", [(), PARTS, OF_AMD])
def test_a_node_when_no_driver_tells_the_use_of_its_gpus_then_it_has_nothing(gpus: tuple[Gpu, ...]) -> None:
    assert planned("n1", gpus) == ()


def test_the_controller_when_it_has_no_gpus_then_a_timer_acts() -> None:
    found = planned("c1", ())
    assert kinds(found) == ["Directory", "Program", "OwnedFiles", "Timer"]
    files = {one.path: one.text for one in found[2].files}  # type: ignore[attr-defined]
    told = json.loads(files[IDLE_GPUS_POLICY])
    assert {**told, "state": ""} == {
        "after": 7200, "grace": 1800, "mail": False, "then": "cancel", "spare": ["ann"], "partitions": [], "state": "",
    }  # fmt: skip


def test_jobs_of_a_node_when_gpus_are_watched_then_prolog_and_epilog_note_them() -> None:
    known = cluster(THREE_HOSTS + KEY)
    facts = facts_of(known, prepared, gpus=WHOLE)
    for kind, word in (("prolog", "mkdir -p /run/slurmfab-idle-gpus"), ("epilog", "rm -f /run/slurmfab-idle-gpus/")):
        ((name, text),) = own_scripts(plan_input(known, facts), "n1", kind)
        assert (name, word in text) == ("05-slurmfab-idle-gpus", True), text


@pytest.mark.parametrize(
    ("host", "unit"), [("n1", f"{IDLE_GPUS_UNIT}.service"), ("c1", f"{IDLE_GPUS_POLICY_UNIT}.timer")]
)
def test_a_host_when_the_key_is_gone_then_its_unit_program_and_files_go(host: str, unit: str) -> None:
    known = cluster(THREE_HOSTS)
    facts = facts_of(known, prepared, gpus=WHOLE)
    facts = {**facts, host: replace(facts[host], owned=(idle_gpus.CAPABILITY,), services={unit: "enabled"})}
    service, program, files = idle_gpus.resources(plan_input(known, facts), host)
    assert isinstance(service, Service)
    assert (service.unit, service.running) == (unit, False)
    assert isinstance(program, Program)
    assert program.files == ()
    assert isinstance(files, OwnedFiles)
    assert files.files == ()


def test_a_cluster_when_it_never_had_the_key_then_nothing_is_planned() -> None:
    assert planned("n1", key="") == planned("c1", key="") == ()
    assert Timer(IDLE_GPUS_POLICY_UNIT) in planned("c1")
