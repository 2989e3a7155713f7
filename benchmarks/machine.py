"""What the numbers were taken on, in general words: nothing that names a machine, a person or a place."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from benchmarks.programs import ProgramFailed, output_of
from slurmfab import __version__

GIB = 1024 * 1024
"""KiB, as /proc/meminfo counts."""


def described() -> dict[str, str]:
    """Processors, memory, kernel and the versions that matter, as text by name."""
    return {
        "cores": str(os.cpu_count()),
        "processor": processor(Path("/proc/cpuinfo").read_text()),
        "memory": f"{memory_kib(Path('/proc/meminfo').read_text()) / GIB:.0f} GiB",
        "kernel": platform.release().split("-")[0],
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "python": platform.python_version(),
        "slurmfab": __version__,
        "openssh": openssh(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def processor(cpuinfo: str) -> str:
    """The processor's name, from the text of /proc/cpuinfo; its architecture where that has none."""
    names = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory_kib(meminfo: str) -> int:
    """The machine's memory, from the text of /proc/meminfo."""
    return int(next(line.split()[1] for line in meminfo.splitlines() if line.startswith("MemTotal:")))


def openssh() -> str:
    """The version of the client whose logins are the floor."""
    if shutil.which("ssh") is None:
        return "missing"
    try:
        return output_of(["sh", "-c", "ssh -V 2>&1"]).split(",")[0].split()[0]
    except ProgramFailed:
        return "unknown"


def ticks() -> tuple[int, int]:
    """Processor time since the boot, in all and what the hypervisor gave to other machines (proc(5), /proc/stat)."""
    return ticks_in(Path("/proc/stat").read_text())


def ticks_in(stat: str) -> tuple[int, int]:
    """Total and stolen time in the text of /proc/stat; the guests' time is part of the users' and counted once.

    >>> ticks_in("cpu  10 0 20 60 0 0 0 10 5 0\\ncpu0 …")
    (100, 10)
    """
    times = [int(word) for word in stat.splitlines()[0].split()[1:9]]
    return sum(times), times[7]


def in_words(machine: Mapping[str, str]) -> str:
    """A machine as one sentence."""
    known = {**dict.fromkeys(("cores", "memory", "kernel", "system", "python", "openssh", "slurmfab"), "?"), **machine}
    return (
        f"{known['cores']} cores, {known['memory']}, Linux {known['kernel']}, {known['system']}, "
        f"Python {known['python']}, {known['openssh']}, slurmfab {known['slurmfab']}"
    )
