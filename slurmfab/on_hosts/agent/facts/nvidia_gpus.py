"""NVIDIA GPUs of a host, whole ones and MIG instances.

The driver describes each GPU in /proc/driver/nvidia; where that is not mounted, as in containers, nvidia-smi does. The
driver names the device files of MIG instances, but only nvidia-smi has the names of their profiles.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.language import is_roots_alone
from slurmfab.on_hosts.agent.core.reading import is_device, names, read_text
from slurmfab.on_hosts.agent.facts.pci import address

DRIVER = "/proc/driver/nvidia"
TOOLS = ("/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi")
SMI_TIMEOUT = 20  # seconds for nvidia-smi: without persistence mode it initializes each GPU first


def read(root: str) -> List[Dict[str, Any]]:
    """GPUs by device number: `file`, `model` and `bus`; a MIG instance has `profile` and `with_files`, too."""
    minors = sorted(number(name, "nvidia") for name in names(root + "/dev"))
    minors = [minor for minor in minors if minor >= 0 and is_device("%s/dev/nvidia%d" % (root, minor))]
    described = (driver_gpus(root) or parse_details(run_smi(root, "-q"))) if minors else []
    known = {gpu["minor"]: gpu for gpu in described}
    profiles: Dict[str, Dict[Tuple[int, int], str]] = {}
    found = []
    for minor in minors:
        gpu = {"file": "/dev/nvidia%d" % minor, **{key: known.get(minor, {}).get(key, "") for key in ("model", "bus")}}
        instances = mig_files(root, minor)
        if instances and not profiles:
            profiles = mig_profiles(run_smi(root, "-L"), run_smi(root, "-q"))
        profile_names = profiles.get(gpu["bus"], {})
        for instance, files in instances.items():
            found.append({**gpu, "profile": profile_names.get(instance, "mig"), "with_files": files})
        if not instances:
            found.append(gpu)
    return found


def driver_gpus(root: str) -> List[Dict[str, Any]]:
    """The GPUs in /proc/driver/nvidia: dicts with `minor`, `model` and `bus`."""
    folder = root + DRIVER + "/gpus"
    found = (parse_information(name, read_text("%s/%s/information" % (folder, name))) for name in names(folder))
    return [gpu for gpu in found if gpu]


def parse_information(name: str, text: str) -> Dict[str, Any]:
    """`minor`, `model` and `bus` of a GPU in the driver's file `information`; empty without a number."""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if not fields.get("Device Minor", "").isdecimal():
        return {}
    bus = address(fields.get("Bus Location", "")) or address(name)
    return {"minor": int(fields["Device Minor"]), "model": fields.get("Model", ""), "bus": bus}


def run_smi(root: str, option: str) -> str:
    """nvidia-smi's output; empty if it is not installed, fails to start or does not end in time."""
    there = (path for path in TOOLS if os.access(root + path, os.X_OK))
    tool = next((root + path for path in there if is_roots_alone(os.path.dirname(path), root)), "")
    if not tool:
        return ""
    import subprocess  # only few hosts need it

    try:
        done = subprocess.run(
            [tool, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=SMI_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def parse_details(text: str) -> List[Dict[str, Any]]:
    """The GPUs of `nvidia-smi -q`: `minor`, `model`, `bus`, `address` (as nvidia-smi has it), `mig` (its present mode).

    And `instances`: by MIG index, the IDs (GPU instance, compute instance).
    """
    found = []
    for bus, block in re.findall(r"^GPU ([0-9A-Fa-f:.]+)\n((?:[ \t]+.*\n?|\n)*)", text, re.M):
        minor = re.search(r"^\s+Minor Number\s*: (\d+)", block, re.M)
        model = re.search(r"^\s+Product Name\s*: (.*)", block, re.M)
        mode = re.search(r"^\s+MIG Mode\n\s+Current\s*: (.*)", block, re.M)
        parts = re.findall(
            r"^\s+Index\s*: (\d+)\n\s+GPU Instance ID\s*: (\d+)\n\s+Compute Instance ID\s*: (\d+)", block, re.M
        )
        if minor:
            found.append(
                {
                    "minor": int(minor.group(1)),
                    "model": model.group(1).strip() if model else "",
                    "bus": address(bus),
                    "address": bus,
                    "mig": mode.group(1).strip() if mode else "",
                    "instances": {int(index): (int(gpu), int(compute)) for index, gpu, compute in parts},
                }
            )
    return found


def mig_files(root: str, minor: int) -> Dict[Tuple[int, int], List[str]]:
    """The device files that MIG instances need besides the GPU's own, by (GPU instance, compute instance)."""
    folder = "%s%s/capabilities/gpu%d/mig" % (root, DRIVER, minor)
    found = {}
    for instance in sorted(number(name, "gi") for name in names(folder) if number(name, "gi") >= 0):
        place = "%s/gi%d" % (folder, instance)
        for compute in sorted(number(name, "ci") for name in names(place) if number(name, "ci") >= 0):
            minors = [capability(place + "/access"), capability("%s/ci%d/access" % (place, compute))]
            found[instance, compute] = ["/dev/nvidia-caps/nvidia-cap%s" % cap for cap in minors if cap]
    return found


def number(name: str, prefix: str) -> int:
    """The number after a prefix, -1 if there is none."""
    return int(name[len(prefix) :]) if name.startswith(prefix) and name[len(prefix) :].isdecimal() else -1


def capability(path: str) -> str:
    """The number of a capability's device file, empty if the driver does not name it."""
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", read_text(path), re.M)
    return found.group(1) if found else ""


def mig_profiles(listing: str, details: str) -> Dict[str, Dict[Tuple[int, int], str]]:
    """The profile of each MIG instance, such as `1g.5gb`.

    `listing`: output of `nvidia-smi -L`: profiles by MIG index, GPUs in the order of `details`. `details`: output of
    `nvidia-smi -q`: IDs by MIG index. Returns by the GPU's PCI address, then by (GPU instance, compute instance).
    """
    blocks = re.split(r"^GPU \d+:.*$", listing, flags=re.M)[1:]
    found = {}
    for position, gpu in enumerate(parse_details(details)):
        block = "".join(blocks[position : position + 1])
        by_index = {int(index): name for name, index in re.findall(r"^\s+MIG (\S+)\s+Device\s+(\d+):", block, re.M)}
        found[gpu["bus"]] = {ids: by_index[index] for index, ids in gpu["instances"].items() if index in by_index}
    return found
