"""The GPUs of a host: those with a device file, for gres.conf, and those on the PCI bus that have none."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Set

from slurmfab.on_hosts.agent.core.reading import is_device, names, read_text
from slurmfab.on_hosts.agent.facts import nvidia_gpus, pci
from slurmfab.on_hosts.agent.facts.hardware import CPUS
from slurmfab.on_hosts.agent.facts.pci import DEVICES

NODES = "/sys/class/kfd/kfd/topology/nodes"
MODELS = {
    "0x66a0": "MI50", "0x66a1": "MI50", "0x738c": "MI100", "0x7408": "MI250X", "0x740c": "MI250", "0x740f": "MI210",
    "0x74a0": "MI300A", "0x74a1": "MI300X", "0x74a5": "MI325X", "0x75a0": "MI350X", "0x75a3": "MI355X",
}  # fmt: skip
"""Product names by PCI device ID (PCI ID database, vendor 1002); sysfs has a product name for some boards only."""

MIN_MEMORY = 4 << 30  # bytes; a GPU with less memory of its own is the graphics part of a processor


def amd_gpus(root: str) -> List[Dict[str, Any]]:
    """AMD's GPUs by the kernel's compute driver (KFD), in the order of their render nodes: `file`, `model`, `bus`.

    An accelerator with two dies, or in a partitioned mode, counts as several GPUs, as for ROCm and AutoDetect=rsmi.
    """
    found = {}
    for name in names(root + NODES):
        lines = read_text("%s%s/%s/properties" % (root, NODES, name)).splitlines()
        values = {key: int(value) for key, _, value in (line.partition(" ") for line in lines) if value.isdecimal()}
        minor = values.get("drm_render_minor", 0)
        file = "/dev/dri/renderD%d" % minor
        if not values.get("simd_count") or not minor or not is_device(root + file):
            continue
        # The low 16 bits of the location hold bus, device and function.
        location = values.get("location_id", 0)
        bus = "%04x:%02x:%02x.%d" % (values.get("domain", 0), location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7)
        memory = read_text("%s%s/%s/mem_info_vram_total" % (root, DEVICES, bus))
        if memory.isdecimal() and int(memory) < MIN_MEMORY:
            continue
        found[minor] = {"file": file, "model": model(root, bus, values.get("gfx_target_version", 0)), "bus": bus}
    return [found[minor] for minor in sorted(found)]


def model(root: str, bus: str, target: int) -> str:
    """The product's name, or else the compiler's name of KFD's gfx_target_version (0: none), such as `gfx90a`."""
    folder = "%s%s/%s" % (root, DEVICES, bus)
    known = MODELS.get(read_text(folder + "/device")) or read_text(folder + "/product_name")
    return known or ("gfx%d%x%x" % (target // 10000, target // 100 % 100, target % 100) if target else "")


class Sockets:
    """The sockets of a host, each with its processors and cores. `root`: where the file system begins."""

    def __init__(self, root: str) -> None:
        self.cpus: Dict[str, Set[int]] = {}
        self.cores: Dict[str, Set[str]] = {}
        for name in names(root + CPUS):
            if not (name.startswith("cpu") and name[3:].isdecimal()):
                continue
            topology = "%s%s/%s/topology/" % (root, CPUS, name)
            socket = read_text(topology + "physical_package_id")
            core = read_text(topology + "core_cpus_list") or read_text(topology + "thread_siblings_list")
            if socket and core:
                self.cpus.setdefault(socket, set()).add(int(name[3:]))
                self.cores.setdefault(socket, set()).add(core)

    def cores_of(self, near: Set[int]) -> str:
        """The cores of all sockets that contain one of these processors, such as `0-31`; empty to omit `Cores`."""
        order = sorted(self.cpus, key=lambda socket: min(self.cpus[socket]))
        sizes = {len(cores) for cores in self.cores.values()}
        chosen = [number for number, socket in enumerate(order) if self.cpus[socket] & near]
        if len(sizes) != 1 or not chosen or len(chosen) == len(order):
            return ""
        return ranges(chosen, sizes.pop())


def ranges(sockets: List[int], size: int) -> str:
    """The cores of some sockets as ranges; adjacent sockets form one range. `size`: cores per socket."""
    runs: List[List[int]] = []
    for number in sockets:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join("%d-%d" % (first * size, (last + 1) * size - 1) for first, last in runs)


MAKER_BY_PREFIX = {"/dev/nvidia": "NVIDIA", "/dev/dri/": "AMD"}  # the maker by the beginning of a device file's path

VENDOR_WORDS = {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon"}


def read(root: str = "", named: Iterable[str] = ()) -> List[Dict[str, Any]]:
    """The GPUs with a device file, NVIDIA's first, in the order of the files' numbers.

    `named`: device files that also count as GPUs, of other makers; missing ones are skipped. Returns the fields of
    `slurmfab.cluster.facts.Gpu`; a MIG instance is one GPU.
    """
    found = [*nvidia_gpus.read(root), *amd_gpus(root)]
    more = [file for file in named if file not in {gpu["file"] for gpu in found} and is_device(root + file)]
    found += [{"file": file, "model": "", "bus": ""} for file in more]
    sockets = Sockets(root) if found else None
    return [
        {
            "file": gpu["file"],
            "type": "_".join(filter(None, (slurm_type(gpu["model"]), slurm_type(gpu.get("profile", ""))))),
            "bus": gpu["bus"],
            "cores": sockets.cores_of(pci.near(root, gpu["bus"])) if sockets else "",
            "with_files": gpu.get("with_files", []),
        }
        for gpu in found
    ]


def without_driver(root: str, usable: List[Dict[str, Any]]) -> List[Dict[str, str]]:
    """The GPUs on the PCI bus without a device file, as fields of `slurmfab.cluster.facts.DriverlessGpu`.

    `usable`: the GPUs with a device file. If the PCI address of one is unknown, no GPU of its maker is reported.
    """
    seen = {gpu["bus"] for gpu in usable}
    unclear = {
        maker
        for gpu in usable
        if not gpu["bus"]
        for start, maker in MAKER_BY_PREFIX.items()
        if gpu["file"].startswith(start)
    }
    return [gpu for gpu in pci.gpus(root) if gpu["bus"] not in seen and gpu["maker"] not in unclear]


def slurm_type(model: str) -> str:
    """A model's name as a type for gres.conf: lower case, without the vendor's words, spaces as underscores.

    `Tesla V100-SXM2-16GB` becomes `v100-sxm2-16gb`, `NVIDIA GeForce RTX 3090` becomes `rtx_3090`. The result stays a
    part of the name that Slurm's AutoDetect finds, as gres.conf(5) requires of Type.
    """
    words = [word for word in model.lower().split() if word not in VENDOR_WORDS]
    return re.sub("[^a-z0-9_.-]", "", "_".join(words))
