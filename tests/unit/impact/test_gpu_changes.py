"""GPUs as they are now against the lock's: which slot has lost one, has another one, or is new."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import SMALL, THREE_HOSTS, cluster, prepared

from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.core.impact.hardware_changes import changes, pinned, with_slots

SLOTS = ("0000:07:00.0", "0000:0b:00.0", "0000:87:00.0")
CAPS = "/dev/nvidia-caps/nvidia-cap"


def gpus(*slots: str, kind: str = "a100") -> tuple[Gpu, ...]:
    """GPUs in these slots, numbered through as the driver numbers them."""
    return tuple(Gpu(f"/dev/nvidia{number}", kind, slot) for number, slot in enumerate(slots))


def instance(profile: str, *caps: int) -> Gpu:
    return Gpu("/dev/nvidia0", f"a100_{profile}", SLOTS[0], with_files=tuple(f"{CAPS}{cap}" for cap in caps))


KNOWN = gpus(*SLOTS)
V100 = Gpu("/dev/nvidia1", "v100", SLOTS[1])
DIVIDED = (instance("3g.20gb", 30, 31), instance("1g.5gb", 84, 85))


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (gpus(*SLOTS[1:]), ["the GPU in slot 0000:07:00.0 (/dev/nvidia0) is gone (it was a100)"]),
        (KNOWN[:2], ["the GPU in slot 0000:87:00.0 (/dev/nvidia2) is gone (it was a100)"]),
        (
            (KNOWN[0], V100, KNOWN[2]),
            ["the GPU in slot 0000:0b:00.0 (/dev/nvidia1) is another one: v100, and was a100"],
        ),
        (
            (*KNOWN[:2], Gpu("/dev/nvidia3", "a100", SLOTS[2])),
            ["the GPU in slot 0000:87:00.0 (/dev/nvidia2) has the device file /dev/nvidia3 now"],
        ),
        (gpus(*SLOTS, "0000:8b:00.0"), ["the GPU in slot 0000:8b:00.0 (/dev/nvidia3) is new (a100)"]),
        (
            (),
            [
                f"the GPU in slot {slot} (/dev/nvidia{number}) is gone (it was a100)"
                for number, slot in enumerate(SLOTS)
            ],
        ),
    ],
    ids=["first-gone", "last-gone", "replaced", "other-file", "new", "all-gone"],
)
def test_gpus_when_they_are_not_the_locks_are_told_by_slot_and_device_file(
    now: tuple[Gpu, ...], words: list[str]
) -> None:
    assert [change.description for change in changes(KNOWN, now)] == words


def test_a_gpu_that_is_new_is_no_loss_and_all_else_is() -> None:
    assert not changes(KNOWN, gpus(*SLOTS, "0000:8b:00.0"))[0].is_loss
    assert changes(KNOWN, KNOWN[:2])[0].is_loss


@pytest.mark.parametrize(
    "now",
    [
        KNOWN,
        tuple(replace(gpu, bus="") for gpu in KNOWN),
        tuple(replace(gpu, type="") for gpu in KNOWN),
        tuple(replace(gpu, cores="0-7") for gpu in KNOWN),
        gpus("0000:08:00.0", "0000:0c:00.0", "0000:88:00.0"),
    ],
    ids=["same", "unknown-slots", "unknown-types", "other-cores", "renumbered-bus"],
)
def test_gpus_when_only_what_is_known_of_them_differs_are_the_same(now: tuple[Gpu, ...]) -> None:
    assert changes(KNOWN, now) == ()


def test_gpus_when_slots_are_unknown_are_told_by_device_file() -> None:
    known = tuple(Gpu(f"/dev/nvidia{number}") for number in range(2))
    assert [change.description for change in changes(known, known[1:])] == ["/dev/nvidia0 is gone"]


@pytest.mark.parametrize(
    ("now", "after"),
    [
        ((DIVIDED[1],), "a100_1g.5gb"),
        ((instance("3g.20gb", 30, 31), instance("1g.5gb", 93, 94)), "a100_3g.20gb and a100_1g.5gb"),
        ((KNOWN[0],), "a100"),
    ],
    ids=["instance-gone", "instance-elsewhere", "not-divided"],
)
def test_a_gpu_when_it_is_divided_otherwise_is_told(now: tuple[Gpu, ...], after: str) -> None:
    (change,) = changes(DIVIDED, now)
    assert change.description == (
        f"the GPU in slot 0000:07:00.0 (/dev/nvidia0) is divided otherwise: {after}, "
        "and was a100_3g.20gb and a100_1g.5gb"
    )


def test_instances_when_listed_in_another_order_are_the_same() -> None:
    assert changes(DIVIDED, DIVIDED[::-1]) == ()


def test_slots_when_an_older_lock_has_none_are_taken_over_from_the_same_gpus_alone() -> None:
    older = tuple(Gpu(gpu.file, gpu.type) for gpu in KNOWN)
    assert with_slots(older, tuple(replace(gpu, cores="0-7") for gpu in KNOWN)) == KNOWN
    assert with_slots(older, KNOWN[:2]) == older
    assert with_slots(KNOWN, gpus("0000:08:00.0", "0000:0c:00.0", "0000:88:00.0")) == KNOWN


ODD = Gpu("/dev/odd0")
NAMED = THREE_HOSTS.replace('"n[1-2]"}', '"n[1-2]", File: /dev/odd0}')


@pytest.mark.parametrize(
    ("old", "now", "kept"),
    [
        (HostLock("n1"), KNOWN[:1], KNOWN[:1]),
        (HostLock("n1", gpus=KNOWN[:1]), KNOWN, KNOWN[:1]),
        (HostLock("n1", hardware=SMALL, gpus=KNOWN[:1]), KNOWN, KNOWN[:1]),
        (HostLock("n1", hardware=SMALL, gpus=KNOWN), (), KNOWN),
        (HostLock("n1", hardware=SMALL, gpus=KNOWN[:1], never_seen=True), KNOWN, KNOWN),
        (HostLock("n1", hardware=SMALL, gpus=KNOWN, never_seen=True), KNOWN[:1], KNOWN),
        (HostLock("n1", hardware=SMALL, gpus=(ODD, *KNOWN)), KNOWN, KNOWN),
        (HostLock("n1", hardware=SMALL, gpus=(Gpu("/dev/odd0", "x"),)), (), (Gpu("/dev/odd0", "x"),)),
        (HostLock("n1", hardware=SMALL, gpus=(Gpu("/dev/nvidia7"),)), (), (Gpu("/dev/nvidia7"),)),
    ],
)
def test_the_lock_keeps_the_gpus_of_the_first_contact(
    old: HostLock, now: tuple[Gpu, ...], kept: tuple[Gpu, ...]
) -> None:
    assert pinned(cluster(), "n1", old, prepared("n1", gpus=now)) == kept


def test_with_slots_an_older_lock_gets_them_from_the_same_gpus_in_another_order() -> None:
    plain = tuple(replace(gpu, bus="") for gpu in KNOWN)
    assert with_slots(plain, KNOWN[::-1]) == KNOWN
    assert with_slots(plain, KNOWN[:2]) == plain
    assert with_slots((KNOWN[0], *plain[1:]), KNOWN) == (KNOWN[0], *plain[1:])


def test_device_files_that_the_cluster_file_names_are_gpus_once_they_are_there() -> None:
    old = HostLock("n1", hardware=SMALL, gpus=KNOWN[:1])
    assert pinned(cluster(NAMED), "n1", old, prepared("n1", gpus=(ODD, *KNOWN))) == (KNOWN[0], ODD)
    assert pinned(cluster(NAMED), "n1", replace(old, gpus=(ODD,)), prepared("n1", gpus=(ODD,))) == (ODD,)
    assert pinned(cluster(NAMED), "c1", old, prepared("c1", gpus=(ODD,))) == KNOWN[:1]
