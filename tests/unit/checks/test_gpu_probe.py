"""What a host's shell shows of its GPUs, read as the check reads it."""

from __future__ import annotations

from slurmfab.cluster.facts import Gpu
from slurmfab.commands.checks.gpu_probe import host_script, parse_gpus

CAPS = "/dev/nvidia-caps/nvidia-cap"
WHOLE = Gpu("/dev/nvidia0", "a100-sxm4-40gb", "0000:07:00.0")
INSTANCES = (
    Gpu("/dev/nvidia0", "a100-sxm4-40gb_3g.20gb", "0000:07:00.0", with_files=(f"{CAPS}30", f"{CAPS}31")),
    Gpu("/dev/nvidia0", "a100-sxm4-40gb_1g.5gb", "0000:07:00.0", with_files=(f"{CAPS}84", f"{CAPS}85")),
)
DRIVER = """\
file /dev/nvidia0
file /dev/nvidia2
file /dev/nvidia-caps/nvidia-cap30
file /dev/nvidia-caps/nvidia-cap31
file /dev/nvidia-caps/nvidia-cap84
file /dev/nvidia-caps/nvidia-cap85
=> driver 0000:07:00.0
Model: 		 NVIDIA A100-SXM4-40GB
Bus Location: 	 0000:07:00.0
Device Minor: 	 0
=> driver 0000:0a:00.0
Model: 		 NVIDIA L4
Bus Location: 	 0000:0a:00.0
Device Minor: 	 2
"""
DETAILS = """\
=> details

==============NVSMI LOG==============

GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 9
        Compute Instance ID               : 0
    Minor Number                          : 0
"""
LISTING = """\
=> listing
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-1)
  MIG 1g.5gb      Device  1: (UUID: MIG-2)
"""


def test_gpus_when_the_driver_tells_have_their_types_and_slots() -> None:
    assert parse_gpus(DRIVER, (WHOLE,)) == (WHOLE, Gpu("/dev/nvidia2", "l4", "0000:0a:00.0"))


def test_gpus_when_nvidia_smi_alone_tells_have_them_too() -> None:
    assert parse_gpus("file /dev/nvidia0\n" + DETAILS, (WHOLE,)) == (WHOLE,)


def test_gpus_when_nobody_tells_are_device_files() -> None:
    assert parse_gpus("file /dev/nvidia1\n=> details\n=> listing\n", ()) == (Gpu("/dev/nvidia1"),)


def test_mig_instances_when_all_is_as_in_the_lock_are_the_locks() -> None:
    assert parse_gpus(DRIVER + DETAILS + LISTING, INSTANCES)[:2] == INSTANCES


def test_mig_instances_when_their_device_files_are_gone_are_not_the_locks() -> None:
    one, other, _ = parse_gpus(DRIVER.replace("cap85", "cap86") + DETAILS + LISTING, INSTANCES)
    assert (one, other.type, other.with_files) == (INSTANCES[0], INSTANCES[1].type, ("unknown",))


def test_amd_gpus_when_the_lock_knows_them_are_looked_for_and_displays_are_not() -> None:
    known = (Gpu("/dev/dri/renderD129", "mi250x", "0000:c6:00.0"),)
    text = (
        "file /dev/dri/renderD128\nfile /dev/dri/renderD129\n"
        "drm /dev/dri/renderD128 0000:03:00.0 0x2000\ndrm /dev/dri/renderD129 0000:c6:00.0 0x7408\n"
    )
    assert parse_gpus(text, known) == known
    assert parse_gpus(text.replace("file /dev/dri/renderD129", ""), known) == ()


def test_nvidia_smi_is_asked_where_the_lock_has_instances_or_the_driver_tells_nothing() -> None:
    assert "if test -c /dev/nvidiactl" in host_script((WHOLE,))
    assert "if test -c /dev/nvidiactl" not in host_script(INSTANCES)
    assert all("nvidia-smi -q" in host_script(known) for known in ((WHOLE,), INSTANCES))


def test_gpus_of_other_makers_are_looked_for_by_the_names_that_the_lock_has() -> None:
    known = (WHOLE, Gpu("/dev/accel/accel0"))
    assert "/dev/dri/renderD* /dev/accel/accel0;" in host_script(known)
    assert parse_gpus("file /dev/accel/accel0\n", known) == (Gpu("/dev/accel/accel0"),)
