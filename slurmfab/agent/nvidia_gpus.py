"""NVIDIA's GPUs of a host, whole ones and their MIG instances.

The driver tells of each GPU in /proc/driver/nvidia; where that is not mounted, as in containers, nvidia-smi tells. Of
MIG instances the driver tells the device files, and nvidia-smi alone the names of their profiles.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Tuple

from slurmfab.agent.pci import address
from slurmfab.agent.reading import is_device, names, read_text

DRIVER = "/proc/driver/nvidia"
TOOLS = ("/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi")
PATIENCE = 20
"""Seconds for nvidia-smi: without persistence mode it starts each GPU first."""


def read(root: str) -> List[Dict[str, Any]]:
    """GPUs with a device file, by its number: `file`, `model`, `bus`, and of a MIG instance `profile`, `with_files`."""
    minors = sorted(number(name, "nvidia") for name in names(root + "/dev"))
    minors = [minor for minor in minors if minor >= 0 and is_device("%s/dev/nvidia%d" % (root, minor))]
    told = (driver_gpus(root) or detailed(ask(root, "-q"))) if minors else []
    known = {gpu["minor"]: gpu for gpu in told}
    profiles: Dict[str, Dict[Tuple[int, int], str]] = {}
    found = []
    for minor in minors:
        gpu = {"file": "/dev/nvidia%d" % minor, **{key: known.get(minor, {}).get(key, "") for key in ("model", "bus")}}
        instances = mig_files(root, minor)
        if instances and not profiles:
            profiles = mig_profiles(ask(root, "-L"), ask(root, "-q"))
        names_here = profiles.get(gpu["bus"], {})
        for instance, files in instances.items():
            found.append({**gpu, "profile": names_here.get(instance, "mig"), "with_files": files})
        if not instances:
            found.append(gpu)
    return found


def driver_gpus(root: str) -> List[Dict[str, Any]]:
    """What NVIDIA's driver tells in /proc of the GPUs that it has: `minor`, `model`, `bus`."""
    folder = root + DRIVER + "/gpus"
    found = (information(name, read_text("%s/%s/information" % (folder, name))) for name in names(folder))
    return [gpu for gpu in found if gpu]


def information(name: str, text: str) -> Dict[str, Any]:
    """One GPU from the driver's file `information` in the directory of that name; empty where it does not tell."""
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if not said.get("Device Minor", "").isdigit():
        return {}
    bus = address(said.get("Bus Location", "")) or address(name)
    return {"minor": int(said["Device Minor"]), "model": said.get("Model", ""), "bus": bus}


def ask(root: str, option: str) -> str:
    """What nvidia-smi answers; nothing where there is none, or where it does not come to an end."""
    tool = next((root + path for path in TOOLS if os.access(root + path, os.X_OK)), "")
    if not tool:
        return ""
    import subprocess  # noqa: PLC0415 - only few hosts need it

    try:
        done = subprocess.run(
            [tool, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def detailed(text: str) -> List[Dict[str, Any]]:
    """The GPUs of `nvidia-smi -q`: `minor`, `model`, `bus`, and `instances`, by MIG index (GPU, compute instance)."""
    found = []
    for bus, block in re.findall(r"^GPU ([0-9A-Fa-f:.]+)\n((?:[ \t]+.*\n?|\n)*)", text, re.M):
        minor = re.search(r"^\s+Minor Number\s*: (\d+)", block, re.M)
        model = re.search(r"^\s+Product Name\s*: (.*)", block, re.M)
        parts = re.findall(
            r"^\s+Index\s*: (\d+)\n\s+GPU Instance ID\s*: (\d+)\n\s+Compute Instance ID\s*: (\d+)", block, re.M
        )
        if minor:
            found.append(
                {
                    "minor": int(minor.group(1)),
                    "model": model.group(1).strip() if model else "",
                    "bus": address(bus),
                    "instances": {int(index): (int(gpu), int(compute)) for index, gpu, compute in parts},
                }
            )
    return found


def mig_files(root: str, minor: int) -> Dict[Tuple[int, int], List[str]]:
    """The device files that a GPU's MIG instances need besides the GPU's own, by (GPU, compute instance)."""
    folder = "%s%s/capabilities/gpu%d/mig" % (root, DRIVER, minor)
    found = {}
    for instance in sorted(number(name, "gi") for name in names(folder) if number(name, "gi") >= 0):
        place = "%s/gi%d" % (folder, instance)
        for compute in sorted(number(name, "ci") for name in names(place) if number(name, "ci") >= 0):
            minors = [capability(place + "/access"), capability("%s/ci%d/access" % (place, compute))]
            found[instance, compute] = ["/dev/nvidia-caps/nvidia-cap%s" % cap for cap in minors if cap]
    return found


def number(name: str, prefix: str) -> int:
    """The number behind a prefix, -1 where there is none."""
    return int(name[len(prefix) :]) if name.startswith(prefix) and name[len(prefix) :].isdigit() else -1


def capability(path: str) -> str:
    """The number of a capability's device file, empty where the driver does not tell."""
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", read_text(path), re.M)
    return found.group(1) if found else ""


def mig_profiles(listing: str, details: str) -> Dict[str, Dict[Tuple[int, int], str]]:
    """The profile of each MIG instance, such as `1g.5gb`, by the GPU's PCI address and (GPU, compute instance).

    Args:
        listing: of `nvidia-smi -L`, which has profiles by index, GPUs in the order of the details.
        details: of `nvidia-smi -q`, which has instances by index.
    """
    blocks = re.split(r"^GPU \d+:.*$", listing, flags=re.M)[1:]
    found = {}
    for position, gpu in enumerate(detailed(details)):
        block = "".join(blocks[position : position + 1])
        by_index = {int(index): name for name, index in re.findall(r"^\s+MIG (\S+)\s+Device\s+(\d+):", block, re.M)}
        found[gpu["bus"]] = {ids: by_index[index] for index, ids in gpu["instances"].items() if index in by_index}
    return found
