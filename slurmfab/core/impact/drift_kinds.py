"""The six kinds of drift, as plans, checks and their JSON name them, and how to accept other hardware."""

from __future__ import annotations

import shlex

from slurmfab.base.program_name import FAB

CHANGED_FILE = "changed file"  # a file on a host differs from the wanted one; a deployment writes it again

OLDER_FILE = "older file loaded"
"""A daemon runs with an older file than the one on disk; a deployment makes it read the file."""

KEY_NOT_LOADED = "key not loaded"  # munged started before the right key was on disk; a deployment restarts it
CRASHED = "crashed daemon"  # a daemon ended by itself, and systemd has started it again; a deployment tells it once
LOST_JOB = "lost job"  # Slurm calls a job running of which nothing runs; a deployment puts it back into the queue
OTHER_HARDWARE = "other hardware"  # a node's hardware differs from the lock; a deployment does not change that


def acceptance(nodes: str) -> str:
    """The command that accepts other hardware of nodes, a hostlist."""
    return f"{FAB} accept-hardware {shlex.quote(nodes)}"
