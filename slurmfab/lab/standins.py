"""Stand-ins for GPUs, nccl-tests and a hanging sshd on lab hosts (files of `shipped/`); each says that it is one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

SHIPPED = Path(__file__).parent / "shipped"

ON_GPU_HOSTS = {
    "nvidia-smi": "usr/bin/nvidia-smi",
    "all_reduce_perf": "usr/bin/all_reduce_perf",
    "nccl-table": "etc/slurmfab-lab/nccl-table",
}
"""The place of each shipped file on hosts with GPUs."""

NVIDIA_MAJOR = 195  # major device number of NVIDIA's driver (Linux, Documentation/admin-guide/devices.txt)


def gpu_devices(count: int) -> str:
    """Lines for tmpfiles.d(5) that make the device files of `count` GPUs at every boot."""
    numbers = {f"nvidia{number}": number for number in range(count)} | {"nvidiactl": 255}
    return "".join(f"c /dev/{name} 0666 root root - {NVIDIA_MAJOR}:{number}\n" for name, number in numbers.items())


def gpu_models(models: Iterable[str]) -> str:
    """Text of /etc/lab-gpus, which the stand-in nvidia-smi reads: per GPU its device file's number and its model."""
    return "".join(f"{number} {model}\n" for number, model in enumerate(models))
