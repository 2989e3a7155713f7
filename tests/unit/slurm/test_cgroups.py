"""Control groups in words: what is wrong with them, what it costs, what to change, and what the lock holds of them."""

from __future__ import annotations

import pytest

from slurmfab.cluster.facts import Cgroup, cgroup_from
from slurmfab.cluster.slurm import cgroups
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.on_hosts.agent.facts.cgroups import assess

V1 = Cgroup("v1", ("cpuset", "memory", "devices"), swap=True)
TAKEN = Cgroup("v2", ("devices",), troubles=("cpuset on v1", "memory on v1"))
OFF = Cgroup("v1", ("cpuset", "devices"), troubles=("memory off",))
NONE = Cgroup("none", troubles=("nothing mounted",))
V2411 = SlurmVersion(24, 11)

TMPFS = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\n"
SINGLE = TMPFS + "".join(
    f"cgroup /sys/fs/cgroup/{name} cgroup rw,{name} 0 0\n" for name in ("cpuset", "memory", "devices")
)
SYSTEMD = "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"
UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
KNOWN = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t{0}\t9\t1\nmemory\t{0}\t9\t{1}\ndevices\t{0}\t9\t1\n"
PLACES = ["", "cpuset", "memory", "devices"]


@pytest.mark.parametrize(
    ("mounts", "controllers", "known", "writable", "lacks_bus", "described", "repair"),
    [
        (SINGLE + SYSTEMD, "", KNOWN.format(3, 1), PLACES, False, "version 1", ""),
        (SINGLE + SYSTEMD, "", KNOWN.format(3, 1), PLACES, True, "version 1", ""),
        (UNIFIED, "cpuset memory", KNOWN.format(0, 1), [""], False, "version 2", ""),
        (UNIFIED, "cpuset memory", "", [""], False, "version 2", ""),
        (
            SINGLE.replace("memory", "pids") + SYSTEMD, "", KNOWN.format(3, 0), PLACES, False,
            "version 1 with memory switched off at boot", "cgroup_enable=memory swapaccount=1 instead of",
        ),
        (
            SINGLE.replace("cpuset", "pids") + SYSTEMD, "", KNOWN.format(3, 1), PLACES, False,
            "version 1 with cpuset not mounted", "systemd.unified_cgroup_hierarchy=1 on the kernel's command line",
        ),
        (
            SINGLE + SYSTEMD, "", KNOWN.format(3, 1), ["cpuset"], False,
            "version 1 with memory and devices mounted read-only",
            "mount -o remount,rw /sys/fs/cgroup/memory; mount -o remount,rw /sys/fs/cgroup/devices",
        ),
        (
            SINGLE + "cgroup2 /sys/fs/cgroup/systemd cgroup2 rw 0 0\n", "", KNOWN.format(3, 1), PLACES, False,
            "version 1 beside a version 2 at /sys/fs/cgroup/systemd, which Slurm would choose and cannot use",
            "systemd.unified_cgroup_hierarchy=1",
        ),
        (SINGLE, "", KNOWN.format(3, 1), PLACES, False, "version 1 without /sys/fs/cgroup/systemd", "hierarchy=1"),
        (
            UNIFIED, "", KNOWN.format(3, 1), [""], False,
            "version 2 with cpuset and memory taken by version 1", "systemd.unified_cgroup_hierarchy=1",
        ),
        (
            UNIFIED, "cpuset", KNOWN.format(0, 0), [""], False,
            "version 2 with memory switched off at boot", "cgroup_enable=memory",
        ),
        (
            UNIFIED, "cpuset", KNOWN.format(0, 1), [""], False,
            "version 2 with memory missing from /sys/fs/cgroup/cgroup.controllers", "cgroup.subtree_control",
        ),
        (UNIFIED, "cpuset memory", "", [], False, "version 2, mounted read-only", "mount -o remount,rw /sys/fs/"),
        ("proc /proc proc rw 0 0\n", "", "", [], False, "nothing is mounted at /sys/fs/cgroup", "hierarchy=1"),
    ],
)  # fmt: skip
def test_what_a_host_has_when_it_is_judged_then_it_is_told_with_what_to_change(  # noqa: PLR0917
    mounts: str, controllers: str, known: str, writable: list[str], lacks_bus: bool, described: str, repair: str
) -> None:
    found = cgroup_from(assess(mounts, controllers, known, writable, True, lacks_bus))
    assert found.is_usable == (not repair)
    assert described in cgroups.description(found)
    assert repair in (cgroups.repair(found) if repair else "")


def test_a_missing_bus_is_told_and_a_package_away() -> None:
    found = cgroup_from(assess(UNIFIED, "cpuset memory", "", [""], True, True))
    assert found.is_usable
    assert "no D-Bus system bus" in cgroups.description(found)
    assert cgroups.repair(found).startswith("apt-get install dbus")
    worse = cgroup_from(assess(UNIFIED, "cpuset", KNOWN.format(0, 0), [""], True, True))
    assert (worse.is_usable, worse.troubles) == (False, ("no system bus", "memory off"))
    assert cgroups.description(worse) == "version 2 with memory switched off at boot"
    assert cgroups.repair(worse).startswith("cgroup_enable=memory")


def test_the_kernel_argument_is_the_one_for_what_the_other_nodes_have() -> None:
    assert cgroups.repair(TAKEN, "v1").startswith("systemd.unified_cgroup_hierarchy=0 ")
    assert cgroups.repair(TAKEN, "v2").startswith("systemd.unified_cgroup_hierarchy=1 ")
    assert cgroups.repair(Cgroup("v1", V1.controllers)).startswith("swapaccount=1 ")


def test_words_of_a_lock_from_before_there_were_troubles_are_sentences_too() -> None:
    assert cgroups.description(Cgroup("v2", ("memory",))) == "version 2 with memory alone"
    assert cgroups.description(Cgroup("none")) == "nothing is mounted at /sys/fs/cgroup"
    assert "which Slurm would choose" in cgroups.description(Cgroup("hybrid"))
