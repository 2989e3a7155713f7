"""The key `mps_daemon`: what it makes of compute nodes, and what is refused."""

from __future__ import annotations

import subprocess

import pytest
from support import cluster, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.facts import Gpu
from slurmfab.core.plan.phases import scripts
from slurmfab.core.plan.plan_input import PlanInput

HOSTS = """\
cluster: lab
addresses: {c1: 10.0.0.1, n1: 10.0.0.2}
controllers: [c1]
nodes: [{hosts: n1, Gres: "gpu:a100:2,mps:200"}]
"""
KEY = "mps_daemon: true\n"


def planned(text: str, programs: tuple[str, ...] = ()) -> PlanInput:
    known = cluster(text)
    gpus = (Gpu("/dev/nvidia0", "a100"), Gpu("/dev/nvidia1", "a100"))
    return prepared_input(known, gpus=gpus, programs=programs)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HOSTS.replace(",mps:200", "") + KEY, "no node has mps in its Gres"),
        (HOSTS + KEY + "private_tmp: true\n", "jobs find the MPS daemon in /tmp"),
        (HOSTS + KEY + "slurm_conf: {Prolog: /opt/mine}\n", "slurmfab writes Prolog itself"),
        (HOSTS + "mps_daemon: maybe\n", "mps_daemon"),
    ],
)
def test_a_mistake_when_it_is_in_the_file_then_it_is_named(text: str, words: str) -> None:
    with pytest.raises(ClusterFileError, match=words):
        cluster(text)


def test_nodes_when_the_key_is_set_then_have_a_script_before_and_after_jobs_that_a_shell_parses() -> None:
    found = planned(HOSTS + KEY)
    there = {one.id: vars(one)["files"] for one in scripts.resources(found, "n1") if one.kind == "scripts"}
    assert {name: [script[0] for script in of] for name, of in there.items()} == {
        "scripts:/etc/slurm/prolog.d": ["00-slurmfab-mps"],
        "scripts:/etc/slurm/epilog.d": ["zz-slurmfab-mps"],
    }
    for of in there.values():
        assert subprocess.run(["sh", "-n"], input=of[0][1], text=True, check=False).returncode == 0
    conf = found.rendered["slurm.conf"]
    assert "Prolog=/usr/local/lib/slurmfab/prolog\n" in conf
    assert "Epilog=/usr/local/lib/slurmfab/epilog\n" in conf


def test_the_key_when_it_is_gone_then_its_scripts_go() -> None:
    left = planned(HOSTS, programs=("prolog", "epilog"))
    ids = [one.id for one in scripts.gone(left, "n1")]
    assert "scripts:/etc/slurm/prolog.d" in ids
    assert "scripts:/etc/slurm/epilog.d" in ids
    assert scripts.resources(left, "n1") == ()
