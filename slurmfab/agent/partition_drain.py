"""Partitions that take no new jobs, while what they have runs or waits; read and changed on the controller."""

from __future__ import annotations

import re
from typing import ClassVar, Dict, Tuple

from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

SHOW = ("scontrol", "--all", "--oneliner", "show", "partition")
OPEN = "UP"
CLOSED = "takes no new jobs"

_PARTITION = re.compile(r"^PartitionName=(\S+).* State=(\S+)", re.MULTILINE)


class PartitionDrain(Resource):
    """Partitions in the state DRAIN: new jobs are refused, those that are there go on (scontrol(1), State).

    One that somebody has closed otherwise, or that slurmctld does not know, counts as right.

    Args:
        partitions: PartitionNames.
    """

    kind: ClassVar[str] = "partition-drain"
    partitions: Tuple[str, ...]

    def name(self) -> str:
        """The partitions."""
        return ",".join(self.partitions)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of them open."""
        return dict.fromkeys(self.partitions, CLOSED)

    def actual(self, context: Context) -> State:
        """Which of them are."""
        states: Dict[str, str] = dict(_PARTITION.findall(context.must(SHOW)))
        return {name: OPEN if states.get(name) == OPEN else CLOSED for name in self.partitions}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Close them.

        Raises:
            ResourceFailed: Slurm refuses.
        """
        for name in self.partitions:
            if name not in differing:
                continue
            done = context.run(["scontrol", "update", "PartitionName=" + name, "State=DRAIN"])
            if done.returncode != 0:
                words = (done.stderr or done.stdout).decode(errors="replace").strip()
                raise ResourceFailed("Slurm does not drain the partition %s: %s" % (name, words))
