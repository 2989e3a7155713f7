"""AMD GPUs of a host, as known to the kernel's compute driver (KFD): each has its own render node.

An accelerator with two dies, or in a partitioned mode, counts as several GPUs, as for ROCm and for Slurm's
AutoDetect=rsmi.
"""

from __future__ import annotations

from typing import Any, Dict, List

from slurmfab.on_hosts.agent.core.reading import is_device, names, read_text
from slurmfab.on_hosts.agent.facts.pci import DEVICES

NODES = "/sys/class/kfd/kfd/topology/nodes"
MODELS = {
    "0x66a0": "MI50", "0x66a1": "MI50", "0x738c": "MI100", "0x7408": "MI250X", "0x740c": "MI250", "0x740f": "MI210",
    "0x74a0": "MI300A", "0x74a1": "MI300X", "0x74a5": "MI325X", "0x75a0": "MI350X", "0x75a3": "MI355X",
}  # fmt: skip
"""Product names by PCI device ID (PCI ID database, vendor 1002); sysfs has a product name for some boards only."""

MIN_MEMORY = 4 << 30  # bytes; a GPU with less memory of its own is the graphics part of a processor


def read(root: str) -> List[Dict[str, Any]]:
    """GPUs with a render node, in the order of its number: dicts with `file`, `model` and `bus`."""
    found = {}
    for name in names(root + NODES):
        lines = read_text("%s%s/%s/properties" % (root, NODES, name)).splitlines()
        values = {key: int(value) for key, _, value in (line.partition(" ") for line in lines) if value.isdigit()}
        minor = values.get("drm_render_minor", 0)
        file = "/dev/dri/renderD%d" % minor
        if not values.get("simd_count") or not minor or not is_device(root + file):
            continue
        # The low 16 bits of the location hold bus, device and function.
        location = values.get("location_id", 0)
        bus = "%04x:%02x:%02x.%d" % (values.get("domain", 0), location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7)
        memory = read_text("%s%s/%s/mem_info_vram_total" % (root, DEVICES, bus))
        if memory.isdigit() and int(memory) < MIN_MEMORY:
            continue
        found[minor] = {"file": file, "model": model(root, bus, values.get("gfx_target_version", 0)), "bus": bus}
    return [found[minor] for minor in sorted(found)]


def model(root: str, bus: str, target: int) -> str:
    """The product's name, or else the compiler's name of KFD's gfx_target_version (0: none), such as `gfx90a`."""
    folder = "%s%s/%s" % (root, DEVICES, bus)
    known = MODELS.get(read_text(folder + "/device")) or read_text(folder + "/product_name")
    return known or ("gfx%d%x%x" % (target // 10000, target // 100 % 100, target % 100) if target else "")
