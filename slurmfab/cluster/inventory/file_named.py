"""Which cluster file a command is about."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PATH = Path("configs/cluster.yaml")
PATH_VARIABLE = "SLURMFAB_CLUSTER"


def file_named(cluster: str) -> Path:
    """The path of the cluster file that the command line names, or of the default one if that is empty."""
    return Path(cluster) if cluster else default_path()


def default_path() -> Path:
    """The default path of the cluster file: from SLURMFAB_CLUSTER, else configs/cluster.yaml."""
    return Path(os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)
