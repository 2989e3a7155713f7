"""Amounts as Slurm writes them: times, memory, GPUs and other resources."""

from __future__ import annotations

import re
from typing import Dict, Optional

NONE = frozenset({"", "NONE", "N/A", "UNLIMITED", "INFINITE", "(null)", "Partition_Limit", "NOT_SET", "INVALID"})
"""What Slurm writes for no limit, or for an unknown one."""

UNTYPED = "gpu"  # stands for the type of GPUs without one

MINUTE, HOUR, DAY = 60, 3600, 86400
LATEST = 253370764799  # the end of the year 9998; later ones are none for Python in some zone
UNITS: Dict[str, float] = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_N = r"\d{1,18}"
_TIME = rf"(?:(?P<days>{_N})-)?(?P<first>{_N})(?::(?P<second>{_N}))?(?::(?P<third>{_N}))?"
_GPU = rf"(?:gres[:/])?gpu(?:[:=](?P<type>[^,:=]*[^,:=\d][^,:=]*))?(?:[:=](?P<count>{_N}))?"


def seconds_of(text: str) -> Optional[int]:
    """A time in any form that Slurm takes (sbatch(1), --time), in seconds; `None` for no limit and other texts.

    >>> seconds_of("90"), seconds_of("30:00"), seconds_of("1-12"), seconds_of("2-01:27:11"), seconds_of("UNLIMITED")
    (5400, 1800, 129600, 178031, None)
    """
    found = re.fullmatch(_TIME, text.strip(), re.ASCII)
    if not found:
        return None
    days, first, second, third = (int(found[name] or 0) for name in ("days", "first", "second", "third"))
    if found["days"] is not None:
        return days * DAY + first * HOUR + second * MINUTE + third
    if found["third"] is not None:
        return first * HOUR + second * MINUTE + third
    return first * MINUTE + second


def clock(seconds: int) -> str:
    """A time as Slurm writes it.

    >>> clock(178031), clock(1800)
    ('2-01:27:11', '00:30:00')
    """
    days, rest = divmod(seconds, DAY)
    text = "%02d:%02d:%02d" % (rest // HOUR, rest // MINUTE % 60, rest % 60)
    return "%d-%s" % (days, text) if days else text


def mebibytes_of(text: str) -> Optional[int]:
    """An amount of memory, in MiB where it has no unit; `None` for no limit and other texts.

    >>> mebibytes_of("4G"), mebibytes_of("2048"), mebibytes_of("1.5T"), mebibytes_of("UNLIMITED")
    (4096, 2048, 1572864, None)
    """
    plain = text.strip().upper().replace("IB", "")
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)([KMGTP]?)(?:[Bb])?", plain, re.ASCII)
    return int(float(found[1]) * UNITS[found[2] or "M"]) if found else None


def number_of(text: str) -> Optional[int]:
    """A number; `None` for no limit and other texts."""
    return int(text) if re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def moment_of(text: str) -> int:
    """A time in seconds since 1970; 0 for Slurm's words for none, and for what is in no calendar.

    >>> moment_of("1795392000"), moment_of("Unknown"), moment_of("132668214192000")
    (1795392000, 0, 0)
    """
    found = number_of(text) or 0
    return found if found <= LATEST else 0


def bounded(seconds: float) -> float:
    """A time in seconds since 1970, or the nearest one that a calendar has.

    Each number that a host or Slurm tells goes through this before it becomes a date: a damaged record may have any.
    """
    return min(max(seconds, 0.0), LATEST) if seconds == seconds else 0.0  # noqa: PLR0124 - nan differs from itself


def gpus_of(text: str) -> Dict[str, int]:
    """The GPUs by type in a list of generic resources, or of trackable ones; the type of untyped GPUs is `gpu`.

    >>> gpus_of("gpu:a100:4(S:0-1),shard:8"), gpus_of("gres/gpu=4,gres/gpu:a100=4"), gpus_of("gres:gpu:2")
    ({'a100': 4}, {'a100': 4}, {'gpu': 2})
    """
    found: Dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        match = re.fullmatch(_GPU, part.strip(), re.ASCII)
        if match:
            kind = match["type"] or UNTYPED
            found[kind] = found.get(kind, 0) + int(match["count"] or 1)
    # A list of trackable resources has the number of all GPUs, and then that of each type again.
    typed = sum(count for kind, count in found.items() if kind != UNTYPED)
    if typed and found.get(UNTYPED, 0) <= typed and "=" in text:
        found.pop(UNTYPED, None)
    return {kind: count for kind, count in found.items() if count}


def tres_of(text: str) -> Dict[str, str]:
    """The amounts in a list of trackable resources, by resource.

    >>> tres_of("cpu=8,gres/gpu=2")
    {'cpu': '8', 'gres/gpu': '2'}
    """
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
