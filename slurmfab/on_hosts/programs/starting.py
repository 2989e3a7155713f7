"""How the programs begin that units and Slurm's daemons start: with their settings, and with errors for the journal."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.language import ENGLISH

DAMAGED = "%s is missing or damaged; the next deployment writes it"


def begin(settings: str) -> Dict[str, Any]:
    """Have other programs speak English from now on, and read the settings; none if missing or damaged."""
    os.environ.update(ENGLISH)
    return json_objects.read(settings)


def log(text: str) -> int:
    """Print a line for the journal, and return 1, which is the exit code if it tells of an error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201
    return 1
