"""The GPUs of the job that this process belongs to, and the files with which a container can use them."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
from typing import Dict, Iterable, List, Mapping, Set, Tuple

DEV = "/dev"
CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device files that programs need besides those of the GPUs."""

CDI = ("/etc/cdi", "/var/run/cdi")
"""Where the container toolkits of vendors leave lists of what each GPU needs (Container Device Interface)."""

KIND = "nvidia.com/gpu"
NUMBERED = re.compile(r"nvidia(\d+)")
CAPABILITIES = "nvidia-caps/nvidia-cap[0-9]*"  # device files of parts of a GPU (MIG)


def in_job(environment: Mapping[str, str]) -> bool:
    """Whether this process belongs to a job on this node; a shell of salloc on a login host does not."""
    return environment.get("SLURM_JOB_ID", "").isdecimal() and bool(environment.get("SLURMD_NODENAME"))


def of_job(environment: Mapping[str, str], dev: str = DEV) -> Tuple[str, ...]:
    """The device files of the job's GPUs, and those that are needed besides; empty without GPUs or outside of a job.

    Slurm names the GPUs by the numbers of their files, in SLURM_STEP_GPUS or SLURM_JOB_GPUS. CUDA_VISIBLE_DEVICES
    counts from 0 where the job can open its own GPUs alone, so it tells nothing then. A file that the job's limits
    deny is none of the job's, whatever the variables say.
    """
    if not in_job(environment):
        return ()
    numbers = allocated(environment, dev)
    files = ["%s/nvidia%d" % (dev, number) for number in sorted(numbers)]
    found = [path for path in files if is_allowed(path)]
    if environment.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
        found += sorted(path for path in glob.glob("%s/%s" % (dev, CAPABILITIES)) if is_allowed(path))
    return (*found, *(path for path in control_files(dev) if found)) if found else ()


def allocated(environment: Mapping[str, str], dev: str) -> Set[int]:
    """The numbers of the job's GPUs."""
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if environment.get(name):
            return numbers_of(environment[name])
    there = present(dev)
    mine = {number for number in there if is_allowed("%s/nvidia%d" % (dev, number))}
    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    if mine != there:
        return mine if visible else set()
    return numbers_of(visible)


def numbers_of(text: str) -> Set[int]:
    """The numbers in a list such as `0,2`."""
    return {int(word) for word in text.split(",") if word.strip().isdecimal()}


def present(dev: str) -> Set[int]:
    """The numbers of all GPUs of the host."""
    found = (NUMBERED.fullmatch(os.path.basename(path)) for path in glob.glob("%s/nvidia[0-9]*" % dev))
    return {int(one[1]) for one in found if one}


def control_files(dev: str = DEV) -> Tuple[str, ...]:
    """The device files that programs need besides those of the GPUs, as far as this host has them."""
    return tuple(path for path in ("%s/%s" % (dev, name) for name in CONTROL) if os.path.exists(path))


def is_allowed(path: str) -> bool:
    """Whether this process may open a device file; another failure, such as a missing driver, does not count."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENOENT)
    return True


def named_devices(files: Iterable[str], directories: Iterable[str] = CDI) -> Tuple[str, ...]:
    """The names that the host's CDI lists have for device files of GPUs (`nvidia.com/gpu=0`), or none."""
    wanted = [path for path in files if NUMBERED.fullmatch(os.path.basename(path))]
    names: Dict[str, str] = {}
    for directory in directories:
        for place in sorted(glob.glob("%s/*.json" % directory) + glob.glob("%s/*.y*ml" % directory)):
            names.update(names_in(place))
    return tuple("%s=%s" % (KIND, names[path]) for path in wanted) if all(path in names for path in wanted) else ()


def names_in(place: str) -> Dict[str, str]:
    """The name of each single GPU in a list, by its device file; empty if it cannot be read."""
    try:
        with open(place, encoding="utf-8") as file:
            text = file.read(1 << 20)
        devices = json_devices(text) if place.endswith(".json") else yaml_devices(text)
    except (OSError, ValueError):
        return {}
    found: Dict[str, str] = {}
    for name, paths in devices:
        gpus = [path for path in paths if NUMBERED.fullmatch(os.path.basename(path))]
        # A GPU has its number and its UUID as names; the first one is kept.
        if len(gpus) == 1 and gpus[0] not in found:
            found[gpus[0]] = name
    return found


def json_devices(text: str) -> List[Tuple[str, List[str]]]:
    """Name and device files of each entry in a list in JSON."""
    whole = json.loads(text)
    if not isinstance(whole, dict) or whole.get("kind") != KIND:
        return []
    found: List[Tuple[str, List[str]]] = []
    for entry in whole.get("devices", ()):
        nodes = entry.get("containerEdits", {}).get("deviceNodes", ())
        found.append((str(entry.get("name")), [str(node.get("path")) for node in nodes]))
    return found


def yaml_devices(text: str) -> List[Tuple[str, List[str]]]:
    """Name and device files of each entry in a list as nvidia-ctk writes it in YAML, with a line for each value."""
    if not re.search(r"^kind: [\"']?%s[\"']?\s*$" % re.escape(KIND), text, re.MULTILINE):
        return []
    part = re.search(r"^devices:\n((?:[ -].*\n?)*)", text, re.MULTILINE)
    indent = re.match(r" *- ", part[1]) if part else None
    if part is None or indent is None:
        return []
    found: List[Tuple[str, List[str]]] = []
    for entry in re.split(r"^%s" % re.escape(indent[0]), part[1], flags=re.MULTILINE)[1:]:
        name = re.search(r"^(?:%s)?name: [\"']?([\w.-]+)" % (" " * len(indent[0])), entry, re.MULTILINE)
        paths = re.findall(r"^[ -]*path: [\"']?(/dev/[\w./-]+)", entry, re.MULTILINE)
        if name:
            found.append((name[1], paths))
    return found
