"""The key `gpu_checks`: what it may say, what it makes of the controller, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support import cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.paths import GPU_CHECK_SETTINGS
from slurmfab.cluster.facts import Gpu
from slurmfab.core.plan.phases.gpu_checks import resources
from slurmfab.core.plan.preflight.gpu_checks import refuse_unfit
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import File

HOSTS = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes:
"""
SAID = HOSTS + '  - {hosts: n1, Gres: "gpu:a100:4"}\n  - {hosts: n2, Gres: "gpu:nvidia_h100:8,scratch:1T"}\n'
FOUND = HOSTS + '  - {hosts: "n[1-2]"}\n'


def planned(text: str, host: str = "c1", **services: str) -> tuple[Resource, ...]:
    return resources(prepared_input(text, services=services), host)


def files(text: str) -> dict[str, str]:
    return {one.path: one.content for one in planned(text) if isinstance(one, File)}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("{min_busbw: {v100: 30}}", 'no node has GPUs of the type "v100" (known: a100, nvidia_h100)'),
        ("{between_nodes: {v100: 30}}", 'no node has GPUs of the type "v100"'),
        ("{min_busbw: {a100: 0}}", "0 is not a bandwidth"),
        ("{min_busbw: -3}", "-3 is not a bandwidth"),
        ("{min_busbw: inf}", "inf is not a bandwidth"),
        ("{min_busbw: fast}", "min_busbw"),
        ("{between_nodes: nan}", "nan is not a bandwidth"),
        ("{when: 25:00}", '"25:00" is neither one of'),
        ("{partition: gpu}", '"gpu" is not a partition (known: main)'),
        ("{qos: low}", "a QOS needs the key database"),
        ("{mpi: openmpi}", "mpi"),
        ("{program: ../all_reduce_perf}", "neither a name such as all_reduce_perf nor an absolute path"),
        ("{arguments: -b 8; reboot}", "has characters that are not allowed"),
        ("{arguments: -b 8M -g 2}", "slurmfab sets -g and -t itself"),
        ("{environment: {PATH: /tmp}}", '"PATH" is not a variable that can be set here'),
        ("{environment: {SLURM_CONF: /tmp}}", "is not a variable that can be set here"),
        ("{wait: 0}", "wait"),
        ("{minutes: 0}", "minutes"),
        ("{keep: 0}", "keep"),
        ("{often: true}", "often"),
    ],
)
def test_what_makes_no_check_is_refused_with_its_line(said: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        cluster(f"{SAID}gpu_checks: {said}\n")
    (complaint,) = caught.value.complaints
    assert complaint.startswith("cluster.yaml:7: gpu_checks")
    assert words in complaint


@pytest.mark.parametrize("said", ["{min_busbw: {h100: 300}}", "{min_busbw: 120}", "{min_busbw: {A100: 120}}", "{}"])
def test_part_of_a_types_name_will_do_and_so_does_one_number(said: str) -> None:
    assert cluster(f"{SAID}gpu_checks: {said}\n").gpu_checks


def test_a_cluster_whose_nodes_say_that_they_have_no_gpus_has_nothing_to_check() -> None:
    with pytest.raises(ClusterFileError, match="no node has GPUs in its Gres"):
        cluster(HOSTS + '  - {hosts: "n[1-2]", Gres: "scratch:1T"}\ngpu_checks: {}\n')


@pytest.mark.parametrize(
    ("said", "gpus", "words"),
    [
        ("{min_busbw: {a100: 120}}", (), "no node has GPUs, so there is nothing to check"),
        ("{min_busbw: {v100: 120}}", (Gpu("/dev/nvidia0", "nvidia_a100"),), "no node has GPUs of the type v100"),
        ("{min_busbw: {a100: 120}}", (Gpu("/dev/nvidia0", "nvidia_a100"),), ""),
        ("{min_busbw: 120}", (Gpu("/dev/nvidia0"),), ""),
    ],
    ids=["none", "another", "part of its name", "untyped"],
)
def test_types_that_were_discovered_are_compared_before_anything_is_changed(
    said: str, gpus: tuple[Gpu, ...], words: str
) -> None:
    known = cluster(f"{FOUND}gpu_checks: {said}\n")
    facts = facts_of(known, prepared)
    wanted = plan_input(known, {**facts, "n1": replace(facts["n1"], gpus=gpus)})
    if words:
        with pytest.raises(InputError, match=words):
            refuse_unfit(wanted)
    else:
        refuse_unfit(wanted)


def test_the_controller_has_program_settings_service_and_timer_and_other_hosts_nothing() -> None:
    text = SAID + 'gpu_checks: {when: "Sun 03:30", min_busbw: {a100: 120}}\n'
    assert [one.id for one in planned(text)] == [
        "directory:/var/lib/slurmfab/gpu-checks",
        "program:/usr/local/lib/slurmfab/gpu-check",
        "file:/etc/slurmfab-gpu-check.json",
        "file:/etc/systemd/system/slurmfab-gpu-check.service",
        "file:/etc/systemd/system/slurmfab-gpu-check.timer",
        "timer:slurmfab-gpu-check",
    ]
    assert planned(text, "n1") == ()
    assert "OnCalendar=Sun *-*-* 03:30:00\n" in files(text)["/etc/systemd/system/slurmfab-gpu-check.timer"]
    assert "\nUser=slurm\n" in files(text)["/etc/systemd/system/slurmfab-gpu-check.service"]


def test_the_program_is_told_the_thresholds_by_type() -> None:
    told = json.loads(files(SAID + "gpu_checks: {min_busbw: 120, between_nodes: {a100: 40}}\n")[GPU_CHECK_SETTINGS])
    assert told["min_busbw"] == {"*": 120.0}
    assert told["between_nodes"] == {"a100": 40.0}
    assert (told["arguments"], told["program"], told["drain"]) == ("-b 512M -e 8G -f 2", "all_reduce_perf", True)


def test_without_a_schedule_the_timer_goes_and_the_program_stays() -> None:
    left = planned(SAID + "gpu_checks: {when: never}\n", **{"slurmfab-gpu-check.timer": "active"})
    assert [one.id for one in left[-2:]] == [
        "service:slurmfab-gpu-check.timer", "absent:/etc/systemd/system/slurmfab-gpu-check.timer",
    ]  # fmt: skip
    assert "program:/usr/local/lib/slurmfab/gpu-check" in [one.id for one in left]


def test_without_the_key_all_of_it_goes_and_where_there_is_nothing_nothing_is_asked() -> None:
    units = {"slurmfab-gpu-check.timer": "active", "slurmfab-gpu-check.service": "inactive"}
    assert [one.id for one in planned(SAID, **units)] == [
        "service:slurmfab-gpu-check.timer",
        "absent:/etc/systemd/system/slurmfab-gpu-check.timer",
        "service:slurmfab-gpu-check",
        "program:/usr/local/lib/slurmfab/gpu-check",
        "absent:/etc/slurmfab-gpu-check.json",
        "absent:/etc/systemd/system/slurmfab-gpu-check.service",
    ]
    assert planned(SAID) == ()
