"""Partitions that accept no new jobs while their present jobs continue; read and changed on the controller."""

from __future__ import annotations

import re
from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

OPEN = "UP"
CLOSED = "accepts no new jobs"

_PARTITION = re.compile(r"^PartitionName=(\S+).* State=(\S+)", re.MULTILINE)


class PartitionDrain(Resource):
    """Partitions in DRAIN, refusing new jobs (scontrol(1)); those not UP, or unknown, count as right."""

    kind: ClassVar[str] = "partition-drain"
    partitions: Tuple[str, ...]

    def name(self) -> str:
        """The partitions."""
        return ",".join(self.partitions)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """No partition is open."""
        return dict.fromkeys(self.partitions, CLOSED)

    def actual(self, context: Context) -> State:
        """Which partitions are open."""
        states: Dict[str, str] = dict(_PARTITION.findall(context.must(commands.SHOW_PARTITIONS)))
        return {name: OPEN if states.get(name) == OPEN else CLOSED for name in self.partitions}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Drain the partitions that are open. Raises ResourceFailed if Slurm refuses."""
        for name in self.partitions:
            if name not in differing:
                continue
            done = context.run(commands.update_partition(name, "State=DRAIN"))
            if done.returncode != 0:
                error = (done.stderr or done.stdout).decode(errors="replace").strip()
                raise ResourceFailed("Slurm does not drain the partition %s: %s" % (name, error))
