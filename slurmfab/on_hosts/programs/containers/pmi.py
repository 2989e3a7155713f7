"""How the tasks of an MPI program, each in a container, find each other by Slurm's server of PMIx or of PMI-2."""

from __future__ import annotations

import os
from typing import Mapping

PMIX_RANK = "PMIX_RANK"  # the variable by which a task of a step knows that Slurm's server of PMIx is there for it

PMI2 = "PMI_FD"
"""The variable with the number of the open socket by which a task speaks with Slurm's server of PMI-2."""

PASSED_ON = 3  # the first file that crun and Podman pass on with --preserve-fds


def keep_socket(environment: Mapping[str, str]) -> bool:
    """Make a task's socket to Slurm's server of PMI-2 the first file that is passed on; false if it has none."""
    try:
        os.dup2(int(environment.get(PMI2, "")), PASSED_ON)
    except (OSError, ValueError):
        return False
    return True
