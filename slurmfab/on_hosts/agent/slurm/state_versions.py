"""Which versions of Slurm can read the state that another version wrote (Slurm's upgrade guide)."""

from __future__ import annotations

import struct

SERIES = (
    "20.02", "20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05",
)  # fmt: skip
"""Release series, oldest first; each has the next protocol version."""

FIRST_PROTOCOL = 35  # the protocol version of the first of them, in the high byte (slurm_protocol_common.h)
READS_THREE = "24.11"  # from this series on Slurm reads state of the three series before it; older ones of two

HEADER_BYTES = 64
TITLE = b"PROTOCOL_VERSION\0"
"""The first text of slurmctld's list of jobs; the protocol version follows (job_mgr.c, dump_all_job_state())."""


def written_by(header: bytes) -> str:
    """The series of the Slurm that wrote a list of jobs; empty if that is not known."""
    try:
        (length,) = struct.unpack_from(">I", header)
        (protocol,) = struct.unpack_from(">H", header, 4 + length)
    except struct.error:
        return ""
    number = (protocol >> 8) - FIRST_PROTOCOL
    return SERIES[number] if header[4 : 4 + length] == TITLE and 0 <= number < len(SERIES) else ""


def reads(installed: str, wrote: str) -> bool:
    """Whether a Slurm of one series reads the state of another one."""
    steps = SERIES.index(installed) - SERIES.index(wrote)
    return 0 <= steps <= (3 if SERIES.index(installed) >= SERIES.index(READS_THREE) else 2)


def refusal(directory: str, wrote: str, installed: str) -> str:
    """Why slurmctld cannot start with its state, and the way out; empty if it can, or a series is not known."""
    series = ".".join(installed.split(".")[:2])
    if wrote not in SERIES or series not in SERIES or reads(series, wrote):
        return ""
    readable = [one for one in SERIES if reads(series, one)]
    found = "the state in %s was written by Slurm %s, and the installed Slurm %s reads that of %s to %s" % (
        directory, wrote, series, readable[0], readable[-1]
    )  # fmt: skip
    between = [one for one in SERIES if reads(one, wrote) and reads(series, one) and one != series]
    way = "start slurmctld of Slurm %s with it once, which converts it" % " or ".join(between)
    if not between:
        way = "install Slurm %s%s again" % (wrote, " or newer" if SERIES.index(wrote) > SERIES.index(series) else "")
    return (
        "%s. Do not follow Slurm's advice to start slurmctld with -i, which discards all jobs. To keep the jobs: %s. "
        "If no job is needed any more: mv %s %s-%s" % (found, way, directory, directory, wrote)
    )
