"""Devices on a host's PCI bus, from sysfs: GPUs, their drivers, and the processors near them."""

from __future__ import annotations

import os
from typing import Dict, List, Set

from slurmfab.on_hosts.agent.core.reading import names, read_text

DEVICES = "/sys/bus/pci/devices"
MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD"}
CLASSES = {"NVIDIA": ("0x03",), "AMD": ("0x0380", "0x12")}
"""Prefixes of the PCI classes of GPUs for computing; AMD's other ones are displays, such as those of many servers."""


def gpus(root: str) -> List[Dict[str, str]]:
    """The bus's GPUs in order: `bus` (such as `0000:3b:00.0`), `maker`, and the kernel's `driver`, or empty."""
    found = []
    for bus in names(root + DEVICES):
        folder = "%s%s/%s" % (root, DEVICES, bus)
        maker = MAKERS.get(read_text(folder + "/vendor"), "")
        if maker and read_text(folder + "/class").startswith(CLASSES[maker]):
            found.append({"bus": bus, "maker": maker, "driver": driver(folder)})
    return found


def driver(folder: str) -> str:
    """The name of the kernel driver bound to a device; empty for none."""
    try:
        return os.path.basename(os.readlink(folder + "/driver"))
    except OSError:
        return ""


def near(root: str, bus: str) -> Set[int]:
    """The processors on a device's NUMA node; none if the firmware does not tell (numa_node is -1)."""
    folder = "%s%s/%s" % (root, DEVICES, bus)
    if not bus or read_text(folder + "/numa_node").startswith("-"):
        return set()
    return numbers(read_text(folder + "/local_cpulist"))


def address(text: str) -> str:
    """A PCI address as sysfs writes it; NVIDIA's programs use capitals and a domain of eight digits.

    >>> address("00000000:3B:00.0")
    '0000:3b:00.0'
    """
    domain, _, rest = text.strip().lower().partition(":")
    try:
        return "%04x:%s" % (int(domain, 16), rest) if rest.count(":") == 1 else ""
    except ValueError:
        return ""


def numbers(text: str) -> Set[int]:
    """The numbers in a list of the kernel, such as `0-15,32-47`."""
    found: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found
