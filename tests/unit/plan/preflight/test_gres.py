"""GPUs that a cluster file asks for and hosts have not: told of new hosts, refused of known ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import cluster, facts_of, host_facts, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import DriverlessGpu, Gpu
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.preflight.gres import describe_driverless, refuse_unfit, remarks, unfit

GPUS = tuple(Gpu(f"/dev/nvidia{number}", "a100-sxm4-40gb") for number in range(2))
BARE = (DriverlessGpu("0000:3b:00.0", "NVIDIA"), DriverlessGpu("0000:5e:00.0", "NVIDIA"))

FILE = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: n1, SETTINGS}]
"""


def wanting(settings: str) -> Any:
    """A cluster whose node n1 has these keys."""
    return cluster(FILE.replace("SETTINGS", settings))


def reason(settings: str, **differing: Any) -> str:
    """Why n1 is unfit when it is met for the first time."""
    facts = facts_of(wanting(settings)) | {"n1": host_facts("n1", **differing)}
    return unfit(wanting(settings), Lock(), facts).get("n1", "")


@pytest.mark.parametrize(
    ("settings", "differing", "words"),
    [
        ("Gres: 'gpu:a100:1'", {}, "gives it 1 GPU, and the host shows 0"),
        (
            "Gres: 'gpu:a100:4'",
            {"gpus": GPUS},
            "the cluster file gives it 4 GPUs, and the host shows 2 (is the driver",
        ),
        (
            "Gres: 'gpu:a100:2'",
            {"driverless_gpus": BARE},
            "the host shows 0 (2 NVIDIA GPUs on the PCI bus have no driver (0000:3b:00.0, 0000:5e:00.0): install",
        ),
        (
            "Gres: 'gpu:h100:2'",
            {"gpus": GPUS},
            "the cluster file calls its GPUs gpu:h100:2, and they are a100-sxm4-40gb. Write the type that they have",
        ),
        ("File: '/dev/nvidia[1-2]'", {"gpus": GPUS}, "names /dev/nvidia2 (File), and the host has no such device"),
    ],
    ids=["one", "too-many", "no-driver", "other-type", "no-file"],
)
def test_a_host_that_is_met_without_the_gpus_of_the_cluster_file_is_left_out_with_the_reason(
    settings: str, differing: dict[str, Any], words: str
) -> None:
    assert words in reason(settings, **differing)


@pytest.mark.parametrize(
    "settings",
    [
        "Weight: 1",
        "Gres: 'gpu:a100:2'",
        "Gres: 'gpu:2'",
        "Gres: 'gpu:volta:2'",
        "Gres: 'gpu:a100_40gb:1'",
        "Gres: 'nic:9'",
    ],
)
def test_a_host_with_the_gpus_of_the_cluster_file_is_fit(settings: str) -> None:
    assert reason(settings, gpus=GPUS) == ""


def test_a_host_that_the_lock_knows_is_not_left_out_for_a_gpu_that_it_has_lost() -> None:
    wanted = wanting("Gres: 'gpu:a100:2'")
    known = pin(wanted, Lock(), facts_of(wanted, gpus=GPUS))
    assert unfit(wanted, known, facts_of(wanted, gpus=())) == {}
    refuse_unfit(plan_input(wanted, facts_of(wanted, gpus=()), facts_of(wanted, gpus=GPUS)))


def test_a_cluster_file_that_asks_for_more_gpus_than_the_lock_knows_is_refused_with_the_way_to_them() -> None:
    wanted = wanting("Gres: 'gpu:a100:3'")
    words = (
        r"^n1: the cluster file gives it 3 GPUs, and the lock has 2 from its first contact "
        r"\(/dev/nvidia0, /dev/nvidia1\)\. Write the number that it has\.\nNothing was changed"
    )
    with pytest.raises(InputError, match=words):
        refuse_unfit(plan_input(wanted, facts_of(wanted, gpus=GPUS)))
    more = (*GPUS, Gpu("/dev/nvidia2", "a100-sxm4-40gb"))
    with pytest.raises(InputError, match="It has 3 now; to accept them: fab accept-hardware n1"):
        refuse_unfit(plan_input(wanted, facts_of(wanted, gpus=more), facts_of(wanted, gpus=GPUS)))


@pytest.mark.parametrize(
    ("method", "slurm", "plugins", "words"),
    [
        ("nvml", "24.11.5", ("nvidia",), "needs Slurm's plugin gpu_nvml.so, and Slurm 24.11 there has gpu_nvidia.so"),
        ("nvidia", "22.05.8", (), "needs Slurm's plugin gpu_nvidia.so, and Slurm 22.05 there has none of its kind"),
        ("rsmi", "24.11.5", (), r"or install slurm-wlm-rsmi-plugin there\."),
    ],
)
def test_a_way_to_find_gpus_whose_plugin_is_missing_is_refused(
    method: str, slurm: str, plugins: tuple[str, ...], words: str
) -> None:
    wanted = wanting(f"AutoDetect: {method}")
    packages = {"slurmd": f"{slurm}-1", "slurmctld": f"{slurm}-1"}
    facts = {host: prepared(host, slurm, packages=packages, gpu_plugins=plugins, gpus=GPUS) for host in wanted.hosts}
    with pytest.raises(InputError, match=f"n1: AutoDetect: {method} {words}" if "needs" in words else words):
        refuse_unfit(plan_input(wanted, facts))
    there = {host: prepared(host, slurm, packages=packages, gpu_plugins=(method,)) for host in wanted.hosts}
    refuse_unfit(plan_input(wanted, there))


def test_a_way_to_find_gpus_before_slurm_is_there_is_one_that_its_packages_bring() -> None:
    for method, is_taken in (("nvidia", True), ("off", True), ("nvml", False)):
        wanted = wanting(f"AutoDetect: {method}")
        if is_taken:
            refuse_unfit(plan_input(wanted, facts_of(wanted)))
        else:
            with pytest.raises(InputError, match="has none of its kind"):
                refuse_unfit(plan_input(wanted, facts_of(wanted)))


def test_a_device_file_that_never_was_there_is_refused_and_one_that_is_gone_is_not() -> None:
    wanted = wanting("File: /dev/accel0")
    with pytest.raises(InputError, match=r"n1: the cluster file names /dev/accel0 \(File\), and the lock has no such"):
        refuse_unfit(plan_input(wanted, facts_of(wanted)))
    refuse_unfit(plan_input(wanted, facts_of(wanted), facts_of(wanted, gpus=(Gpu("/dev/accel0"),))))


def test_a_device_file_that_is_named_later_is_taken_into_the_lock_and_leaves_it_with_the_key() -> None:
    plain, named = wanting("Weight: 1"), wanting("File: /dev/accel0")
    before = pin(plain, Lock(), facts_of(plain, gpus=GPUS))
    after = pin(named, before, facts_of(named, gpus=(*GPUS, Gpu("/dev/accel0"))))
    assert after.hosts["n1"].gpus == (*GPUS, Gpu("/dev/accel0"))
    assert pin(plain, after, facts_of(plain, gpus=GPUS)).hosts["n1"].gpus == GPUS


def test_gpus_that_nothing_can_use_are_a_remark_and_stop_nobody() -> None:
    wanted = wanting("Weight: 1")
    known = plan_input(wanted, facts_of(wanted, driverless_gpus=BARE))
    refuse_unfit(known)
    ((host, words),) = remarks(known, ("n1",))
    assert host == "n1"
    assert words.startswith(
        "2 NVIDIA GPUs on the PCI bus have no driver (0000:3b:00.0, 0000:5e:00.0); Slurm cannot use"
    )
    assert words.endswith("fab accept-hardware n1")
    assert list(remarks(known, ("c1",))) == []


def test_gpus_that_the_lock_has_and_whose_driver_is_gone_need_it_back_and_no_more() -> None:
    wanted = wanting("Weight: 1")
    before = facts_of(wanted, gpus=(Gpu("/dev/nvidia0", "a100", BARE[0].bus), Gpu("/dev/nvidia1", "a100", BARE[1].bus)))
    ((_, words),) = remarks(plan_input(wanted, facts_of(wanted, driverless_gpus=BARE), before), ("n1",))
    assert words.endswith(
        "(0000:3b:00.0, 0000:5e:00.0), and the lock has them: load the driver again (see `dmesg` there)"
    )


def test_a_gres_that_forgets_the_gpus_is_a_remark() -> None:
    wanted = wanting("Gres: 'localtmp:800G'")
    ((host, words),) = remarks(plan_input(wanted, facts_of(wanted, gpus=GPUS)), ("n1",))
    assert host == "n1"
    assert words.startswith(
        "its Gres, localtmp:800G, does not name its 2 GPUs, so jobs cannot use them; to change that, add gpu"
    )
    assert list(remarks(plan_input(wanted, facts_of(wanted)), ("n1",))) == []


def test_a_type_that_a_known_nodes_gpus_are_not_is_a_remark() -> None:
    wanted = wanting("Gres: 'gpu:h100:2'")
    ((host, words),) = remarks(plan_input(wanted, facts_of(wanted, gpus=GPUS)), ("n1",))
    assert (host, words[:43]) == ("n1", "the cluster file calls its GPUs gpu:h100:2,")


def test_a_type_that_slurm_conf_has_already_is_a_name_of_the_sites_and_no_remark() -> None:
    wanted = wanting("Gres: 'gpu:h100:2'")
    facts = facts_of(wanted, gpus=GPUS)
    facts["c1"] = replace(facts["c1"], slurm_conf="NodeName=n1 CPUs=4 Gres=gpu:h100:2\n")
    assert list(remarks(plan_input(wanted, facts), ("n1",))) == []


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("", "1 AMD GPU on the PCI bus has no driver (0000:c1:00.0)"),
        ("nouveau", "1 AMD GPU on the PCI bus has only the driver nouveau (0000:c1:00.0)"),
        ("amdgpu", "1 AMD GPU on the PCI bus has the driver amdgpu and no device file (0000:c1:00.0)"),
    ],
)
def test_gpus_without_device_file_are_told_with_what_drives_them(driver: str, words: str) -> None:
    assert describe_driverless([DriverlessGpu("0000:c1:00.0", "AMD", driver)]) == words
