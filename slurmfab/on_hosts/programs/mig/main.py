"""Divides the GPUs of a node as the last deployment said; run at each boot before slurmd."""

from __future__ import annotations

import os
import sys

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.language import ENGLISH
from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.slurm.mig_instances import divide


def main(settings: str) -> int:
    """Divide the GPUs that are not divided so, and return the exit code.

    `settings`: path of a JSON file with the profiles of each GPU's instances, by the GPU's slot.
    """
    os.environ.update(ENGLISH)
    wanted = json_objects.parse(read_bytes(settings))
    if wanted is None or not all(isinstance(layout, list) for layout in wanted.values()):
        return failed("%s is missing or damaged; the next deployment writes it" % settings)
    try:
        divide(Context(), {slot: tuple(map(str, layout)) for slot, layout in wanted.items()})
    except ResourceFailed as error:
        return failed(str(error))
    return 0


def failed(text: str) -> int:
    """Print an error for the journal, and return exit code 1."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201
    return 1
