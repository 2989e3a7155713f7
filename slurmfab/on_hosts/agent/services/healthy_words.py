"""The errors that Slurm's daemons write when they start well, so that none of them is ever taken for a cause."""

from __future__ import annotations

import re
from typing import Tuple

HEALTHY: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    (r"error:\s+mpi/pmix_v\d+: init: .* can not load PMIx library$", ("22.05",)),
    (r"error: Couldn't load specified plugin name for mpi/pmix\w*: Plugin init\(\) callback failed$", ("22.05",)),
    (r"error: MPI: Cannot create context for mpi/pmix\w*$", ("22.05",)),
    (r"error: WARNING: Even though we are collecting accounting information you have asked for it not", ("22.05",)),
    (r"error: Job accounting information gathered, but not stored$", ("22.05", "24.11")),
    (r"error: Could not open [a-z ]*state (?:save )?file \S+: No such file or directory$", ("22.05", "24.11")),
    (r"error: NOTE: Trying backup state save file\. ", ("22.05", "24.11")),
    (r"error: High latency for \d+ calls to gettimeofday\(\): \d+ microseconds$", ("22.05",)),
    (r"Not running as root\. Can't drop supplementary groups$", ("22.05", "24.11")),
    (r"error: We can't find assoc \d+ on cluster \S+$", ("24.11",)),
    (r"error: No clusters defined\?  How could there be accts\?$", ("22.05",)),
    (
        r"error: _conn_readable: persistent connection for fd \d+ experienced error\[104\]: Connection reset by",
        ("22.05",),
    ),
    (r"error: Detected \d+ oom[-_]kill event(?:\(s\))? in StepId=", ("22.05", "24.11")),
    (r"stepd_cleanup: done with step \(", ("24.11",)),
    (r"error: slurm_send_node_msg: .*\(msg_type=SRUN_\w+\) failed: Connection reset by peer", ("24.11",)),
    (r"error: (?:slurm|service)_\w+.*: Zero Bytes were transmitted or received", ("22.05", "24.11")),
)
"""Patterns of lines without their times, with the releases of Slurm in which lab hosts wrote them in a healthy start.

The starts were the first one, which finds no state, and later ones, with and without a database, and without the
library of PMIx, on a busy machine too (latency). Four are slurmdbd's, some of them when a command of Slurm's has got
its answer and ends. The last four are no trouble of a daemon's: a job has exceeded its memory, srun has ended before it
is told that its job has, and somebody has tried its port, as checks do. Lab tests compare. Slurm 26.05 wrote no error.
Each pattern counts for every release: in none does such a line end a daemon.
"""

LINE = re.compile("|".join(pattern for pattern, _ in HEALTHY))


def is_healthy(line: str) -> bool:
    """Whether daemons write such a line when they start well, too. `line`: without its time and the daemon's name."""
    return bool(LINE.match(line))
