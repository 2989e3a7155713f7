"""The programs of compute nodes around jobs, and what a node's health check looks for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.health import Health
from slurmfab.core.plan.phases import scripts
from slurmfab.core.plan.phases.scripts import files_by_node, settings, task_prolog_text


def test_gpus_of_gres_conf_belong_to_the_nodes_of_their_lines() -> None:
    text = (
        "# made by slurmfab NodeName=n9 Name=gpu File=/dev/nothing\n"
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-3\n"
        "NodeName=n2 Name=gpu Type=h100 File=/dev/nvidia2\n"
        "NodeName=n3 Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap3\n"
        "NodeName=n3 Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap4\n"
        "NodeName=n4 Name=nic File=/dev/nic0\n"
        "NodeName=n5 Name=shard Count=8\n"
    )
    caps = ("/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4")
    assert files_by_node(text) == {
        "n1": ("/dev/nvidia0", "/dev/nvidia1"),
        "n2": ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"),
        "n3": ("/dev/nvidia0", *caps),
    }


@pytest.mark.parametrize(
    ("keys", "gpus"),
    [
        ("", ["/dev/nvidia0", "/dev/nvidia1"]),
        (', Gres: "gpu:a100:2"', ["/dev/nvidia0", "/dev/nvidia1"]),
        (', Gres: "gpu:a100:1"', ["/dev/nvidia0"]),
        (', Gres: "nic:1"', []),
        (", AutoDetect: nvidia", ["/dev/nvidia0", "/dev/nvidia1"]),
    ],
)
def test_a_node_has_those_gpus_that_slurm_counts_on(keys: str, gpus: list[str]) -> None:
    known = cluster(THREE_HOSTS.replace('"n[1-2]"}', f'"n[1-2]"{keys}}}') + "health: true\n")
    facts = facts_of(known, prepared, gpus=(Gpu("/dev/nvidia0", "a100"), Gpu("/dev/nvidia1", "a100")))
    told = json.loads(settings(plan_input(known, facts), "n1", Health()))
    assert (told["gpus"], told["memory"]) == (gpus, 15520)


DEFAULTS: dict[str, Any] = {
    "node": "n1", "interval": 300, "mounts": ["/data"], "memory": 15520, "gpus": [], "clock": 10, "daemons": [],
    "disk": {"/": "3%", "/tmp": "3%", "/var": "3%", "/var/spool/slurmd": "3%"},
}  # fmt: skip
MOUNTED = f"{THREE_HOSTS}mounts: [{{path: /data, source: 'nas:/data', type: nfs}}]\n"


@pytest.mark.parametrize(
    ("keys", "differing"),
    [
        ({}, {}),
        ({"interval": 60}, {"interval": 60}),
        ({"memory": False}, {"memory": 0}),
        ({"clock": 0, "daemons": ("ssh",)}, {"clock": 0, "daemons": ["ssh"]}),
        ({"mounts": ("/home",)}, {"mounts": ["/home"]}),
        ({"mounts": ()}, {"mounts": []}),
        ({"disk": {"/srv": "2G"}}, {"disk": {"/srv": "2G"}}),
    ],
)
def test_the_health_check_of_a_node_reads_what_the_cluster_file_says(
    keys: dict[str, Any], differing: dict[str, Any]
) -> None:
    known = cluster(MOUNTED)
    told = settings(prepared_input(known), "n1", Health(**keys))
    assert json.loads(told) == {**DEFAULTS, **differing}
    assert told.endswith("}\n")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", ()),
        ("prolog: p.d\n", ("prolog",)),
        ("epilog: e.d\n", ("epilog",)),
        ("prolog: p.d\nepilog: e.d\n", ("prolog", "epilog")),
    ],
)
def test_only_compute_nodes_have_the_wanted_programs(text: str, kinds: tuple[str, ...]) -> None:
    given = prepared_input(THREE_HOSTS + text)
    assert scripts.wanted(given, "n1") == (kinds, None)
    assert scripts.wanted(given, "c1") == ((), None)
    assert scripts.resources(given, "c1") == ()
    assert [one.id for one in scripts.resources(given, "n1") if one.id.startswith("scripts:")] == [
        f"scripts:/etc/slurm/{kind}.d" for kind in kinds
    ]


PROLOG_GONE = ["scripts:/etc/slurm/prolog.d", "absent:/usr/local/lib/slurmfab/prolog"]
TASKS_GONE = ["absent:/usr/local/lib/slurmfab/task-prolog"]
HEALTH_GONE = [one.id for one in scripts.health_gone()]


@pytest.mark.parametrize(
    ("text", "there", "gone"),
    [
        ("", ("prolog", "task-prolog"), [*PROLOG_GONE, *TASKS_GONE]),
        ("prolog: p.d\n", ("prolog", "task-prolog"), TASKS_GONE),
        ("job_environment: {all: {A: b}}\n", ("prolog", "task-prolog"), PROLOG_GONE),
        ("", ("health",), HEALTH_GONE),
        ("", ("health-check",), HEALTH_GONE),
        ("health: true\n", ("health", "health-check"), []),
        ("", (), []),
    ],
)
def test_programs_that_a_host_has_and_the_cluster_file_no_longer_are_removed(
    text: str, there: tuple[str, ...], gone: list[str]
) -> None:
    given = prepared_input(THREE_HOSTS + text, programs=there)
    assert [one.id for one in scripts.gone(given, "n1")] == gone


@pytest.mark.parametrize(("tmpdir", "apptainer"), [(False, False), (True, False), (False, True)])
def test_jobs_are_given_their_variables_and_their_directory(*, tmpdir: bool, apptainer: bool) -> None:
    told = task_prolog_text((("A", "it's"),), ("/scratch", "SCRATCH", tmpdir), apptainer)
    assert "'export A=it'\\''s'" in told
    assert 'echo "export SCRATCH=$directory"' in told
    assert ("TMPDIR=$directory" in told, "APPTAINER_BINDPATH=" in told) == (tmpdir, apptainer)
    assert "directory" not in task_prolog_text((("A", "b"),))


@pytest.mark.parametrize(
    ("text", "variables", "has_scratch"),
    [
        ("", None, False),
        ("job_environment: {all: {A: b}, groups: [{hosts: n2, variables: {C: d}}]}\n", "export A=b", False),
        ("scratch: {size: 1G}\n", "", True),
        ("private_tmp: true\n", "'export PMIX_MCA_gds=hash'", False),
        ("private_tmp: true\njob_environment: {all: {PMIX_MCA_gds: shmem2}}\n", "PMIX_MCA_gds=shmem2", False),
        ("private_tmp: {Dirs: [/dev/shm]}\n", None, False),
        ("private_tmp: true\nslurm_conf: {TaskProlog: /sw/prolog}\n", None, False),
    ],
)
def test_a_node_has_a_task_prolog_where_jobs_get_variables_or_a_directory(
    text: str, variables: str | None, has_scratch: bool
) -> None:
    given = prepared_input(THREE_HOSTS + text)
    assert scripts.task_prolog(given, "c1") == ()
    found = scripts.task_prolog(given, "n1")
    if variables is None:
        assert found == ()
        return
    (file,) = found
    assert variables in file.content
    assert ("/scratch/" in file.content, file.mode) == (has_scratch, 0o755)
