"""Divides the GPUs of a node as the last deployment said; run at each boot before slurmd."""

from __future__ import annotations

import os

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.language import ENGLISH
from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.slurm.mig_instances import divide
from slurmfab.on_hosts.programs.starting import DAMAGED, log


def main(settings: str) -> int:
    """Divide the GPUs that are not divided so, and return the exit code.

    `settings`: path of a JSON file with the profiles of each GPU's instances, by the GPU's slot.
    """
    os.environ.update(ENGLISH)
    wanted = json_objects.parse(read_bytes(settings))
    if wanted is None or not all(isinstance(layout, list) for layout in wanted.values()):
        return log(DAMAGED % settings)
    try:
        divide(Context(), {slot: tuple(map(str, layout)) for slot, layout in wanted.items()})
    except ResourceFailed as error:
        return log(str(error))
    return 0
