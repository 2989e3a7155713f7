"""The GPUs of a host, read from copies of what kernels and drivers of real machines show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.cluster.facts import DriverlessGpu, Gpu, from_answer
from slurmfab.on_hosts.agent.facts import gpus, nvidia_gpus, pci

H200 = Path(__file__).with_name("h200")
"""What the driver 580.159 shows of a real NVIDIA H200; its serial number and UUID are replaced."""

ROOTS = pytest.mark.needs_root("only a program of root's is asked, and here root alone can make one")

A100 = "NVIDIA A100-SXM4-40GB"
CAPS = "/dev/nvidia-caps/nvidia-cap"
NVIDIA, AMD = "0x10de", "0x1002"

LISTING = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-ad2367dd-a40e-6b86-6fc3-c44a2cc92c7e)
"""
DETAILS = """
==============NVSMI LOG==============

Driver Version                            : 535.104.05
Attached GPUs                             : 2
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
        Device Attributes
            Shared
                Multiprocessor count      : 42
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 9
        Compute Instance ID               : 0
    Minor Number                          : 0
    PCI
        Bus                               : 0x07

GPU 00000000:0A:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Disabled
    Minor Number                          : 1
"""


class Machine:
    """A temporary directory with the content of a machine's root file system.

    Args:
        root: where the tree begins.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """A file with its directories."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def device(self, path: str) -> None:
        """Add a character device."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to("/dev/null")

    def sockets(self, count: int, cores: int) -> None:
        """Add sockets with cores of two threads, numbered as by the kernel."""
        for cpu in range(2 * count * cores):
            core = cpu % (count * cores)
            topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
            self.write(f"{topology}/physical_package_id", str(core // cores))
            self.write(f"{topology}/core_cpus_list", f"{core},{core + count * cores}")

    def card(
        self, bus: str, vendor: str = NVIDIA, kind: str = "0x030200", driver: str = "nvidia", **files: str
    ) -> None:
        """A device on the PCI bus."""
        folder = f"sys/bus/pci/devices/{bus}"
        for name, text in {"vendor": vendor, "class": kind, "numa_node": "-1", **files}.items():
            self.write(f"{folder}/{name}", text + "\n")
        if driver:
            (self.root / folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")

    def nvidia(self, minor: int, bus: str, model: str = A100, **files: str) -> None:
        """An NVIDIA GPU with its driver and device file."""
        self.card(bus, **files)
        said = f"Model: \t\t {model}\nIRQ:   \t\t 41\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
        self.write(f"proc/driver/nvidia/gpus/{bus}/information", said)
        self.device(f"dev/nvidia{minor}")

    def amd(self, node: int, minor: int, location: int, **files: str) -> None:
        """A GPU that AMD's compute driver knows."""
        bus = f"0000:{location >> 8:02x}:00.0"
        self.card(bus, AMD, files.pop("kind", "0x038000"), "amdgpu", **files)
        said = f"cpu_cores_count 0\nsimd_count 440\ngfx_target_version 90010\nlocation_id {location}\ndomain 0\n"
        self.write(f"sys/class/kfd/kfd/topology/nodes/{node}/properties", f"{said}drm_render_minor {minor}\n")
        self.device(f"dev/dri/renderD{minor}")

    def tool(self, *answers: tuple[str, str]) -> None:
        """Add a program in place of nvidia-smi, with its output by option."""
        cases = "".join(f"{option}) cat <<'END'\n{text}END\n;;\n" for option, text in answers)
        self.write("usr/bin/nvidia-smi", f"#!/bin/sh\ncase $1 in\n{cases}esac\n")
        (self.root / "usr/bin/nvidia-smi").chmod(0o755)

    def gpus(self, *named: str) -> tuple[Gpu, ...]:
        """The facts of the tree's GPUs."""
        return self.facts(*named)[0]

    def facts(self, *named: str) -> tuple[tuple[Gpu, ...], tuple[DriverlessGpu, ...]]:
        """GPUs with a device file, and those without one."""
        found = gpus.read(str(self.root), named)
        answer = {"gpus": found, "driverless_gpus": gpus.without_driver(str(self.root), found)}
        host = from_answer("n1", {"hostname": "n1", "os_id": "debian", "codename": "trixie", **answer}, 0)
        return host.gpus, host.driverless_gpus


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_four_gpus_when_they_hang_on_two_sockets_have_slots_and_the_cores_near_them(machine: Machine) -> None:
    machine.sockets(2, 16)
    for minor, (bus, node) in enumerate([("07", 0), ("0b", 0), ("87", 1), ("8b", 1)]):
        cpus = f"{16 * node}-{16 * node + 15},{16 * node + 32}-{16 * node + 47}"
        machine.nvidia(minor, f"0000:{bus}:00.0", numa_node=str(node), local_cpulist=cpus)
    assert machine.gpus() == (
        Gpu("/dev/nvidia0", "a100-sxm4-40gb", "0000:07:00.0", "0-15"),
        Gpu("/dev/nvidia1", "a100-sxm4-40gb", "0000:0b:00.0", "0-15"),
        Gpu("/dev/nvidia2", "a100-sxm4-40gb", "0000:87:00.0", "16-31"),
        Gpu("/dev/nvidia3", "a100-sxm4-40gb", "0000:8b:00.0", "16-31"),
    )


@pytest.mark.parametrize(
    "source",
    ["the driver's files", pytest.param("nvidia-smi", marks=ROOTS)],
)
def test_a_real_h200_when_told_by_either_source_has_its_type_and_slot(machine: Machine, source: str) -> None:
    machine.card("0000:00:06.0")
    machine.device("dev/nvidia0")
    if source == "nvidia-smi":
        machine.tool(("-q", (H200 / "nvidia-smi-q.txt").read_text()), ("-L", (H200 / "nvidia-smi-L.txt").read_text()))
    else:
        machine.write("proc/driver/nvidia/gpus/0000:00:06.0/information", (H200 / "information").read_text())
    assert machine.gpus() == (Gpu("/dev/nvidia0", "h200", "0000:00:06.0"),)


def test_eight_gpus_when_sockets_have_several_numa_nodes_are_near_whole_sockets(machine: Machine) -> None:
    machine.sockets(2, 8)
    for minor in range(8):
        node = minor // 2
        machine.nvidia(minor, f"0000:{minor:02x}:00.0", "NVIDIA H100 80GB HBM3", numa_node=str(node),
                       local_cpulist=f"{4 * node}-{4 * node + 3},{16 + 4 * node}-{16 + 4 * node + 3}")  # fmt: skip
    assert [gpu.cores for gpu in machine.gpus()] == ["0-7"] * 4 + ["8-15"] * 4
    assert {gpu.type for gpu in machine.gpus()} == {"h100_80gb_hbm3"}


@pytest.mark.parametrize(
    ("sockets", "numa", "cpus"),
    [(1, "0", "0-7"), (2, "-1", "0-31"), (2, "0", "0-31"), (2, "0", "")],
    ids=["one-socket", "unknown-node", "all-near", "none-near"],
)
def test_cores_when_the_choice_says_nothing_are_left_out(machine: Machine, sockets: int, numa: str, cpus: str) -> None:
    machine.sockets(sockets, 8)
    machine.nvidia(0, "0000:01:00.0", "NVIDIA GeForce RTX 3090", numa_node=numa, local_cpulist=cpus)
    assert machine.gpus() == (Gpu("/dev/nvidia0", "rtx_3090", "0000:01:00.0"),)


def test_cores_when_sockets_differ_are_left_out(machine: Machine) -> None:
    machine.sockets(2, 8)
    for cpu in (7, 23):
        machine.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "")
    machine.nvidia(0, "0000:01:00.0", numa_node="0", local_cpulist="0-6,16-22")
    assert machine.gpus()[0].cores == ""


def test_gpus_when_one_of_their_device_files_is_missing_keep_their_numbers(machine: Machine) -> None:
    machine.nvidia(0, "0000:01:00.0")
    machine.nvidia(1, "0000:02:00.0")
    machine.nvidia(2, "0000:03:00.0", "NVIDIA L4")
    (machine.root / "dev/nvidia1").unlink()
    usable, bare = machine.facts()
    assert [(gpu.file, gpu.type) for gpu in usable] == [("/dev/nvidia0", "a100-sxm4-40gb"), ("/dev/nvidia2", "l4")]
    assert bare == (DriverlessGpu("0000:02:00.0", "NVIDIA", "nvidia"),)


def test_device_numbers_when_the_driver_counts_otherwise_than_the_bus_are_the_drivers(machine: Machine) -> None:
    machine.nvidia(1, "0000:01:00.0", "NVIDIA L4")
    machine.nvidia(0, "0000:02:00.0", "NVIDIA H100 PCIe")
    assert [(gpu.type, gpu.bus) for gpu in machine.gpus()] == [("h100_pcie", "0000:02:00.0"), ("l4", "0000:01:00.0")]


def test_gpus_when_the_bus_has_them_and_no_driver_are_bare(machine: Machine) -> None:
    machine.card("0000:3b:00.0", driver="")
    machine.card("0000:5e:00.0", kind="0x030000", driver="nouveau")
    machine.card("0000:5e:00.1", kind="0x040300", driver="snd_hda_intel")
    machine.card("0000:03:00.0", vendor=AMD, kind="0x030000", driver="radeon")
    machine.card("0000:c1:00.0", vendor=AMD, kind="0x120000", driver="")
    assert machine.facts() == (
        (),
        (
            DriverlessGpu("0000:3b:00.0", "NVIDIA"),
            DriverlessGpu("0000:5e:00.0", "NVIDIA", "nouveau"),
            DriverlessGpu("0000:c1:00.0", "AMD"),
        ),
    )


def test_gpus_when_their_slots_are_unknown_make_no_others_bare(machine: Machine) -> None:
    machine.device("dev/nvidia0")
    machine.card("0000:3b:00.0")
    assert machine.facts() == ((Gpu("/dev/nvidia0"),), ())


@ROOTS
def test_gpus_when_proc_does_not_tell_are_those_of_nvidia_smi(machine: Machine) -> None:
    machine.device("dev/nvidia1")
    machine.tool(("-q", DETAILS))
    assert machine.gpus() == (Gpu("/dev/nvidia1", "a100-sxm4-40gb", "0000:0a:00.0"),)


def test_gpus_when_nvidia_smi_fails_have_no_type(machine: Machine) -> None:
    machine.device("dev/nvidia0")
    machine.tool()
    assert machine.gpus() == (Gpu("/dev/nvidia0"),)


@ROOTS
def test_mig_instances_when_there_are_some_are_gpus_of_their_own_with_their_files(machine: Machine) -> None:
    machine.nvidia(0, "0000:07:00.0")
    machine.nvidia(1, "0000:0a:00.0")
    for place, cap in {"gi2": 30, "gi2/ci0": 31, "gi9": 84, "gi9/ci0": 85}.items():
        path = f"proc/driver/nvidia/capabilities/gpu0/mig/{place}/access"
        machine.write(path, f"DeviceFileMinor: {cap}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    machine.tool(("-L", LISTING), ("-q", DETAILS))
    kind, bus = "a100-sxm4-40gb", "0000:07:00.0"
    assert machine.gpus() == (
        Gpu("/dev/nvidia0", f"{kind}_3g.20gb", bus, with_files=(f"{CAPS}30", f"{CAPS}31")),
        Gpu("/dev/nvidia0", f"{kind}_1g.5gbme", bus, with_files=(f"{CAPS}84", f"{CAPS}85")),
        Gpu("/dev/nvidia1", kind, "0000:0a:00.0"),
    )


def test_mig_instances_when_nvidia_smi_is_not_there_are_told_from_whole_gpus(machine: Machine) -> None:
    machine.nvidia(0, "0000:07:00.0")
    for place in ("gi2", "gi2/ci0"):
        machine.write(f"proc/driver/nvidia/capabilities/gpu0/mig/{place}/access", "DeviceFileMinor: 30\n")
    assert [gpu.type for gpu in machine.gpus()] == ["a100-sxm4-40gb_mig"]


def test_amd_gpus_when_a_card_has_two_dies_are_two_with_their_render_nodes(machine: Machine) -> None:
    machine.sockets(2, 4)
    machine.write("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 8\nsimd_count 0\n")
    machine.amd(1, 129, 0xC600, device="0x7408", numa_node="1", local_cpulist="4-7,12-15")
    machine.amd(2, 128, 0xC100, device="0x7408", numa_node="1", local_cpulist="4-7,12-15")
    assert machine.gpus() == (
        Gpu("/dev/dri/renderD128", "mi250x", "0000:c1:00.0", "4-7"),
        Gpu("/dev/dri/renderD129", "mi250x", "0000:c6:00.0", "4-7"),
    )


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"device": "0x74a1", "kind": "0x120000"}, "mi300x"),
        ({"device": "0x9999", "product_name": "AMD Instinct MI9000X"}, "mi9000x"),
        ({"device": "0x9999"}, "gfx90a"),
    ],
    ids=["known", "named", "architecture"],
)
def test_an_amd_gpus_type_is_its_products_name_or_its_architecture(
    machine: Machine, files: dict[str, str], kind: str
) -> None:
    machine.amd(1, 128, 0x0500, **files)
    assert machine.facts() == ((Gpu("/dev/dri/renderD128", kind, "0000:05:00.0"),), ())


def test_the_graphics_of_an_amd_processor_are_no_gpu_to_compute_on(machine: Machine) -> None:
    machine.amd(1, 128, 0x0500, device="0x164e", kind="0x030000", mem_info_vram_total=str(512 << 20))
    assert machine.facts() == ((), ())


def test_gpus_of_both_makers_are_all_there_nvidias_first(machine: Machine) -> None:
    machine.amd(1, 128, 0x0500, device="0x740f")
    machine.nvidia(0, "0000:07:00.0")
    assert [gpu.file for gpu in machine.gpus()] == ["/dev/nvidia0", "/dev/dri/renderD128"]


def test_files_when_named_as_gpus_but_no_devices_are_none(machine: Machine) -> None:
    machine.write("dev/nvidia0", "")
    assert machine.gpus() == ()


def test_files_that_the_cluster_file_names_are_gpus_where_they_are_devices(machine: Machine) -> None:
    machine.nvidia(0, "0000:07:00.0")
    machine.device("dev/accel/accel0")
    machine.write("dev/accel/accel1", "")
    machine.card("0000:c1:00.0", vendor=AMD, driver="", kind="0x120000")
    usable, bare = machine.facts("/dev/accel/accel0", "/dev/accel/accel1", "/dev/nvidia0", "/dev/accel/accel2")
    assert usable == (Gpu("/dev/nvidia0", "a100-sxm4-40gb", "0000:07:00.0"), Gpu("/dev/accel/accel0"))
    assert bare == (DriverlessGpu("0000:c1:00.0", "AMD"),)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA GeForce RTX 3090", "rtx_3090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada_generation"),
        ("Quadro RTX 6000/8000", "rtx_60008000"),
        ("AMD Instinct MI210", "mi210"),
        ("", ""),
    ],
)
def test_a_gpu_model_when_told_to_slurm_is_a_name_that_it_takes(model: str, expected: str) -> None:
    assert gpus.slurm_type(model) == expected


@pytest.mark.parametrize(
    ("text", "address"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("0000:3b:00.0", "0000:3b:00.0"), ("3b:00.0", ""), ("?", ""), ("", "")],
)
def test_a_pci_address_is_spelled_as_sysfs_spells_it(text: str, address: str) -> None:
    assert pci.address(text) == address


def test_a_list_of_processors_is_read_as_the_kernel_writes_it() -> None:
    assert pci.numbers("0-2,8") == {0, 1, 2, 8}
    assert pci.numbers("") == set()


def test_nvidia_smi_when_it_hangs_is_given_up(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("usr/bin/nvidia-smi", "#!/bin/sh\nexec sleep 60\n")
    os.chmod(machine.root / "usr/bin/nvidia-smi", 0o755)  # noqa: PTH101
    monkeypatch.setattr(nvidia_gpus, "SMI_TIMEOUT", 0.1)
    assert nvidia_gpus.run_smi(str(machine.root), "-q") == ""
