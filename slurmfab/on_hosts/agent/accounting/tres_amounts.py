"""Amounts of TRES as Slurm's commands print them."""

from __future__ import annotations

import re
from typing import Container, Dict, Mapping

UNITS: Dict[str, float] = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}  # MiB by unit

MEMORY = ("mem", "gres/gpumem", "vmem")


def amounts(text: str, only: Container[str] = ()) -> Dict[str, float]:
    """The amounts in `cpu=4,mem=50M,gres/gpu:a100=2`, memory in MiB and CPU time in seconds.

    `text`: as Slurm prints it. `only`: names to look for, as there are very many texts; all when left out.
    """
    found: Dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if only and name not in only:
            continue
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", value)
        if match and name in MEMORY:
            # Without a unit, memory in use is in bytes (sacct(1)).
            found[name] = float(match[1]) * UNITS[match[2]] if match[2] else float(match[1]) / 1024**2
        elif match:
            found[name] = float(match[1]) * (1024 ** "_KMGTP".index(match[2] or "_"))
        elif ":" in value:
            found[name] = seconds_of(value)
    return found


def seconds_of(text: str) -> float:
    """A time such as `1-02:03:04`, `02:03.456` or `00:00:05` in seconds; 0 for another text."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if not match:
        return 0.0
    days, hours, minutes = (int(one or 0) for one in match.groups()[:3])
    return days * 86400 + hours * 3600 + minutes * 60 + float(match[4])


def gpu_types(tres: Mapping[str, float]) -> str:
    """The types of GPUs among TRES: `a100`, `a100+v100`, `gpu` for GPUs without a type, or empty for no GPUs."""
    types = sorted(name.partition(":")[2] for name, count in tres.items() if name.startswith("gres/gpu:") and count)
    return "+".join(types) or ("gpu" if tres.get("gres/gpu") else "")
