"""Which device files a node's health check looks for: those of gres.conf, or of the lock with AutoDetect."""

from __future__ import annotations

import json

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.health import Health
from slurmfab.core.plan.phases.scripts import files_by_node, settings


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
