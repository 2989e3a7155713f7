"""The GPUs of a host: what gres.conf needs to know of them, and those on the PCI bus that nothing can use."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List

from slurmfab.agent import amd_gpus, nvidia_gpus, pci
from slurmfab.agent.gpu_cores import Sockets
from slurmfab.agent.reading import is_device

FILES = {"/dev/nvidia": "NVIDIA", "/dev/dri/": "AMD"}
"""How the device files of each maker begin."""

VENDOR_WORDS = {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon"}


def read(root: str = "", named: Iterable[str] = ()) -> List[Dict[str, Any]]:
    """The GPUs with a device file, NVIDIA's first, in the order of the files' numbers.

    Args:
        root: where the file system begins.
        named: device files that are GPUs as well, of makers that nothing here knows; those that are there count.

    Returns:
        The fields of `slurmfab.facts.Gpu`; a MIG instance is one GPU.
    """
    found = [*nvidia_gpus.read(root), *amd_gpus.read(root)]
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


def unusable(root: str, usable: List[Dict[str, Any]]) -> List[Dict[str, str]]:
    """The GPUs on the PCI bus that have no device file, as fields of `slurmfab.facts.BareGpu`.

    Args:
        root: where the file system begins.
        usable: those that have one; where the address of one of a maker is not known, none of that maker is bare.
    """
    seen = {gpu["bus"] for gpu in usable}
    unclear = {
        maker for gpu in usable if not gpu["bus"] for start, maker in FILES.items() if gpu["file"].startswith(start)
    }
    return [gpu for gpu in pci.gpus(root) if gpu["bus"] not in seen and gpu["maker"] not in unclear]


def slurm_type(model: str) -> str:
    """A model's name as a Slurm gres type: lower case, without the words of the vendor, spaces as underscores.

    `Tesla V100-SXM2-16GB` becomes `v100-sxm2-16gb`, `NVIDIA GeForce RTX 3090` becomes `rtx_3090`. It stays a part of
    the name that Slurm's AutoDetect finds, which gres.conf(5) asks of a Type.
    """
    words = [word for word in model.lower().split() if word not in VENDOR_WORDS]
    return re.sub("[^a-z0-9_.-]", "", "_".join(words))
