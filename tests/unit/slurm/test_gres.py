"""Generic resources as lines of gres.conf."""

from __future__ import annotations

from slurmfab.facts import Gpu, Hardware
from slurmfab.slurm.gres import gres_lines, gres_names
from slurmfab.slurm.node import Node

SMALL = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=16000)
PASCAL = (Gpu("/dev/nvidia0", "pascal"), Gpu("/dev/nvidia1", "pascal"))


def node(name: str, gpus: tuple[Gpu, ...] = (), **settings: str) -> Node:
    return Node(name, name, name, SMALL, gpus, settings)


def test_gres_lines_fold_nodes_and_device_files() -> None:
    nodes = [node(f"cn{number:02}", gpus=PASCAL) for number in range(1, 5)] + [node("login")]
    assert gres_lines(nodes) == ("NodeName=cn[01-04] Name=gpu Type=pascal File=/dev/nvidia[0-1]",)


def test_a_cluster_without_gres_has_no_gres_lines() -> None:
    assert gres_lines([node("n1"), node("n2")]) == ()


def test_the_users_gres_names_the_type_of_the_discovered_files() -> None:
    assert gres_lines([node("n1", gpus=PASCAL, Gres="gpu:p100:1")]) == (
        "NodeName=n1 Name=gpu Type=p100 File=/dev/nvidia0",
    )


def test_files_of_missing_gpus_are_not_made_up() -> None:
    assert gres_lines([node("n1", gpus=PASCAL, Gres="gpu:p100:4")]) == (
        "NodeName=n1 Name=gpu Type=p100 File=/dev/nvidia[0-1]",
    )
    assert gres_lines([node("n1", Gres="gpu:p100:4")]) == ()


def test_gres_that_is_only_counted_has_a_count() -> None:
    nodes = [node("n1", gpus=PASCAL, Gres="gpu:pascal:2,nic:3,bandwidth:no_consume:4G,licence")]
    assert gres_lines(nodes)[1:] == (
        "NodeName=n1 Name=nic Count=3",
        "NodeName=n1 Name=bandwidth Count=4G Flags=CountOnly",
        "NodeName=n1 Name=licence Count=1 Flags=CountOnly",
    )
    assert gres_names(nodes) == ("bandwidth", "gpu", "licence", "nic")
