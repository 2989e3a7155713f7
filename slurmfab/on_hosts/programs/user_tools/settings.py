"""What the cluster file tells the commands of users: its name, its controllers, and what Slurm does not say."""

from __future__ import annotations

import json
from typing import Any, Mapping

PATH = "/etc/slurmfab-user-tools.json"
LARGEST = 1 << 20  # the most bytes of the file


def read(path: str = PATH) -> Mapping[str, Any]:
    """The settings by name; none if the file is missing or damaged, for Slurm knows most by itself."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(LARGEST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
