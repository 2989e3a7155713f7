"""Generic resources as lines of gres.conf."""

from __future__ import annotations

import pytest

from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.slurm.gres import gres_lines, gres_names, is_of_type, tracked_gres, typed_shares
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.node_lines import node_lines, node_settings

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


def gpu(number: int, kind: str = "a100", cores: str = "") -> Gpu:
    return Gpu(f"/dev/nvidia{number}", kind, f"0000:0{number}:00.0", cores)


def instance(profile: str, cap: int) -> Gpu:
    return Gpu("/dev/nvidia0", f"a100_{profile}", with_files=(f"/dev/nvidia-caps/nvidia-cap{cap}",))


NEAR = (gpu(0, cores="0-15"), gpu(1, cores="0-15"), gpu(2, cores="16-31"), gpu(3, cores="16-31"))
TWO_TYPES = (gpu(0, "v100-sxm2-16gb"), gpu(1, "a100-sxm4-40gb"), gpu(2, "a100-sxm4-40gb"))


def test_gpus_near_different_cores_are_in_lines_of_their_own_and_one_in_slurm_conf() -> None:
    assert gres_lines([node("n1", gpus=NEAR)]) == (
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-15",
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=16-31",
    )
    assert node_settings(node("n1", gpus=NEAR), "3%")["Gres"] == "gpu:a100:4"


@pytest.mark.parametrize("key", ["CPUs", "sockets", "CoresPerSocket"])
def test_cores_are_not_said_where_the_user_counts_the_cores(key: str) -> None:
    assert gres_lines([node("n1", gpus=NEAR, **{key: "1"})]) == (
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-3]",
    )


def test_cores_are_said_of_the_users_gres_as_well() -> None:
    assert gres_lines([node("n1", gpus=NEAR, Gres="gpu:big:3")]) == (
        "NodeName=n1 Name=gpu Type=big File=/dev/nvidia[0-1] Cores=0-15",
        "NodeName=n1 Name=gpu Type=big File=/dev/nvidia2 Cores=16-31",
    )


@pytest.mark.parametrize(
    ("gres", "lines"),
    [
        ("gpu:a100:2,gpu:v100:1", ("Type=a100 File=/dev/nvidia[1-2]", "Type=v100 File=/dev/nvidia0")),
        ("gpu:old:1,gpu:a100:2", ("Type=old File=/dev/nvidia0", "Type=a100 File=/dev/nvidia[1-2]")),
        ("gpu:3", ("File=/dev/nvidia[0-2]",)),
        ("gpu:a100", ("Type=a100 File=/dev/nvidia1",)),
        ("gpu:a100:3", ("Type=a100 File=/dev/nvidia[0-2]",)),
    ],
)
def test_the_users_types_get_the_gpus_of_that_model_first(gres: str, lines: tuple[str, ...]) -> None:
    found = gres_lines([node("n1", gpus=TWO_TYPES, Gres=gres)])
    assert found == tuple(f"NodeName=n1 Name=gpu {line}" for line in lines)


def test_instances_of_a_gpu_are_gpus_with_several_files_each() -> None:
    gpus = (instance("3g.20gb", 31), instance("1g.5gb", 85), instance("1g.5gb", 94), gpu(1))
    assert gres_lines([node("n1", gpus=gpus)]) == (
        "NodeName=n1 Name=gpu Type=a100_3g.20gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap31",
        "NodeName=n1 Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap85",
        "NodeName=n1 Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap94",
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia1",
    )
    assert node_settings(node("n1", gpus=gpus), "3%")["Gres"] == "gpu:a100_3g.20gb:1,gpu:a100_1g.5gb:2,gpu:a100:1"


def test_whole_gpus_go_before_instances_where_no_profile_is_named() -> None:
    gpus = (instance("1g.5gb", 85), instance("1g.5gb", 94), gpu(1))
    (whole, part) = gres_lines([node("n1", gpus=gpus, Gres="gpu:a100:1,gpu:1g.5gb:1")])
    assert whole.endswith("Type=a100 File=/dev/nvidia1")
    assert part.endswith("Type=1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap85")


def test_shards_are_counted_and_slurm_deals_them_over_the_gpus() -> None:
    shared = node("n1", gpus=PASCAL, Gres="gpu:pascal:2,shard:8")
    assert gres_lines([shared])[1] == "NodeName=n1 Name=shard Count=8"
    assert gres_names([shared]) == ("gpu", "shard")
    assert tracked_gres([shared]) == ("gres/gpu", "gres/gpu:pascal", "gres/shard")


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        ("gpu:pascal:2,shard:8", "gpu:pascal:2,shard:pascal:8"),
        ("gpu:a100:1, gpu:l4:3, shard:8", "gpu:a100:1,gpu:l4:3,shard:a100:2,shard:l4:6"),
        ("gpu:2,shard:8", "gpu:2,shard:8"),
        ("gpu:a100:1,gpu:1,shard:8", "gpu:a100:1,gpu:1,shard:8"),
        ("gpu:a100:2,shard:7", "gpu:a100:2,shard:7"),
        ("gpu:a100:2,mps:200", "gpu:a100:2,mps:a100:200"),
        ("shard:8", "shard:8"),
        ("license:4", "license:4"),
    ],
)
def test_shards_have_the_types_of_the_gpus_that_they_are_dealt_over(value: str, typed: str) -> None:
    assert typed_shares(value) == typed


def test_nodes_that_find_their_gpus_themselves_say_so_each_by_its_name_and_keep_their_gres() -> None:
    found = node("n1", gpus=PASCAL, AutoDetect="nvml", Gres="gpu:pascal:2,mps:200")
    off = node("n2", gpus=PASCAL, AutoDetect="OFF")
    assert gres_lines([found, off, node("n3", AutoDetect="nvml")]) == (
        "NodeName=n1 AutoDetect=nvml",
        "NodeName=n1 Name=mps Count=200",
        "NodeName=n2 AutoDetect=off Name=gpu Type=pascal File=/dev/nvidia[0-1]",
    )
    assert tracked_gres([found]) == ("gres/gpu", "gres/gpu:pascal", "gres/mps")
    assert "AutoDetect" not in "".join(node_lines([found, off], "3%"))


@pytest.mark.parametrize(
    ("found", "wanted", "fits"),
    [
        ("a100-sxm4-80gb", "a100", True),
        ("a100-sxm4-80gb", "A100_80gb", True),
        ("a100-sxm4-40gb_1g.5gb", "1g.5gb", True),
        ("rtx_2080_ti", "2080ti", True),
        ("a100-sxm4-80gb", "h100", False),
        ("", "a100", False),
        ("a100", "", False),
    ],
)
def test_a_name_fits_a_model_that_has_all_of_its_words(found: str, wanted: str, fits: bool) -> None:
    assert is_of_type(found, wanted) is fits


@pytest.mark.parametrize("cores", [",".join(["0-1048575"] * 200), ",".join(["0-65535"] * 200), "65536"])
def test_cores_of_a_lock_that_no_node_has_are_left_out_and_the_gpu_stays(cores: str) -> None:
    assert gres_lines([node("n1", gpus=(gpu(0, cores=cores),))]) == (
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia0",
    )
