"""The NVIDIA GPUs of a host: what gres.conf needs to know of them.

GPUs of other makers are left to the cluster file: their device files do not tell them from displays.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, List

from slurmfab.agent.reading import names, read_text

VENDOR_WORDS = {"nvidia", "tesla", "geforce", "quadro"}


def read(root: str = "") -> List[Dict[str, str]]:
    """The device file and type of each GPU, in the order of the device numbers."""
    numbers = sorted(int(name[6:]) for name in names(root + "/dev") if re.fullmatch("nvidia[0-9]+", name))
    found = [number for number in numbers if is_device("%s/dev/nvidia%d" % (root, number))]
    models = (driver_models(root) or listed_models(root)) if found else {}
    return [{"file": "/dev/nvidia%d" % number, "type": slurm_type(models.get(number, ""))} for number in found]


def is_device(path: str) -> bool:
    """Whether this is a character device."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def driver_models(root: str) -> Dict[int, str]:
    """Model names by device number, as NVIDIA's driver tells them in /proc."""
    folder = root + "/proc/driver/nvidia/gpus"
    models = {}
    for bus in names(folder):
        lines = read_text("%s/%s/information" % (folder, bus)).splitlines()
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if fields.get("Device Minor", "").isdigit():
            models[int(fields["Device Minor"])] = fields.get("Model", "")
    return models


def listed_models(root: str) -> Dict[int, str]:
    """Model names by index, from `nvidia-smi -L`, where /proc does not tell."""
    if root or not any(os.access(folder + "/nvidia-smi", os.X_OK) for folder in ("/usr/bin", "/usr/local/bin")):
        return {}
    import subprocess  # noqa: PLC0415 - only few hosts need it

    argv = ["nvidia-smi", "-L"]
    try:
        listing = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_listing(listing.stdout.decode(errors="replace"))


def parse_listing(listing: str) -> Dict[int, str]:
    """Model names by index, from lines such as `GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-...)`."""
    return {int(number): model for number, model in re.findall(r"^GPU (\d+): (.*?)(?: \(UUID.*)?$", listing, re.M)}


def slurm_type(model: str) -> str:
    """A model's name as a Slurm gres type: lower case, without the words of the vendor, spaces as underscores.

    `Tesla V100-SXM2-16GB` becomes `v100-sxm2-16gb`, `NVIDIA GeForce RTX 3090` becomes `rtx_3090`. It stays a part of
    the name that Slurm's AutoDetect finds, which gres.conf(5) asks of a Type.
    """
    words = [word for word in model.lower().split() if word not in VENDOR_WORDS]
    return re.sub("[^a-z0-9_.-]", "", "_".join(words))
