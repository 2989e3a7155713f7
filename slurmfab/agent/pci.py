"""Devices on a host's PCI bus, from sysfs: which are GPUs, what drives them, and which processors are near them."""

from __future__ import annotations

import os
from typing import Dict, List, Set

from slurmfab.agent.reading import names, read_text

DEVICES = "/sys/bus/pci/devices"
MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD"}
CLASSES = {"NVIDIA": ("0x03",), "AMD": ("0x0380", "0x12")}
"""How the classes of GPUs for computing begin: AMD's others are displays, as on the boards of many servers."""


def gpus(root: str) -> List[Dict[str, str]]:
    """The GPUs on the bus, in its order: `bus` such as `0000:3b:00.0`, `maker`, and `driver`, empty where none is."""
    found = []
    for bus in names(root + DEVICES):
        folder = "%s%s/%s" % (root, DEVICES, bus)
        maker = MAKERS.get(read_text(folder + "/vendor"), "")
        if maker and read_text(folder + "/class").startswith(CLASSES[maker]):
            found.append({"bus": bus, "maker": maker, "driver": driver(folder)})
    return found


def driver(folder: str) -> str:
    """The name of the kernel's driver that has a device; empty where none has."""
    try:
        return os.path.basename(os.readlink(folder + "/driver"))
    except OSError:
        return ""


def near(root: str, bus: str) -> Set[int]:
    """The processors on the NUMA node of a device; none where the firmware does not tell (numa_node is -1)."""
    folder = "%s%s/%s" % (root, DEVICES, bus)
    if not bus or read_text(folder + "/numa_node").startswith("-"):
        return set()
    return numbers(read_text(folder + "/local_cpulist"))


def address(text: str) -> str:
    """A PCI address as sysfs writes it: NVIDIA's programs write capitals, and a domain of eight digits.

    >>> address("00000000:3B:00.0")
    '0000:3b:00.0'
    """
    domain, _, rest = text.strip().lower().partition(":")
    try:
        return "%04x:%s" % (int(domain, 16), rest) if rest.count(":") == 1 else ""
    except ValueError:
        return ""


def numbers(text: str) -> Set[int]:
    """The numbers of a list of the kernel's, such as `0-15,32-47`."""
    found: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found
