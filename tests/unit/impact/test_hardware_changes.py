"""Hardware as it is now against the lock's: what counts as other hardware, and in which words."""

from __future__ import annotations

import dataclasses

import pytest
from support import SMALL

from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.core.impact.hardware_changes import differences

ONE_GPU = (Gpu("/dev/nvidia0", "v100"),)


def sized(**differing: int) -> Hardware:
    return dataclasses.replace(SMALL, **differing)


@pytest.mark.parametrize(
    ("now", "margin", "found"),
    [
        (SMALL, "3%", []),
        (sized(RealMemory=15950), "3%", []),
        (sized(RealMemory=15950), "0%", ["RealMemory: 15950, not 16000"]),
        (sized(RealMemory=8000), "3%", ["RealMemory: 8000, not 16000"]),
        (sized(RealMemory=32000), "3%", ["RealMemory: 32000, not 16000"]),
        (sized(CPUs=2, ThreadsPerCore=1), "3%", ["CPUs: 2, not 4", "ThreadsPerCore: 1, not 2"]),
    ],
)
def test_hardware_when_compared_with_the_locks_is_other_beyond_what_kernels_keep_for_themselves(
    now: Hardware, margin: str, found: list[str]
) -> None:
    changes = differences(HostLock(hardware=SMALL), now, (), margin)
    assert [f"{change.name}: {change.actual}, not {change.wanted}" for change in changes] == found


def test_gpus_when_one_is_gone_are_told_by_device_file_and_type() -> None:
    (change,) = differences(HostLock(hardware=SMALL, gpus=ONE_GPU), SMALL, (), "3%")
    assert (change.name, change.actual, change.wanted) == ("GPUs", "none", "/dev/nvidia0 v100")


def test_gpus_when_they_are_not_asked_for_do_not_count() -> None:
    assert differences(HostLock(hardware=SMALL, gpus=ONE_GPU), SMALL, None, "3%") == []


def test_a_node_that_nobody_ever_saw_has_nothing_to_be_compared_with() -> None:
    assert differences(HostLock(), SMALL, (), "3%") == []
    assert differences(HostLock(hardware=SMALL), None, (), "3%") == []
