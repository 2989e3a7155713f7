"""A unit of the system that other units need, and that systemd has given up: started again."""

from __future__ import annotations

from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.services.service import show


class RevivedUnit(Resource):
    """A unit that has not failed; one that is not there, or was stopped, counts as right."""

    kind: ClassVar[str] = "revived-unit"
    named_by: ClassVar[str] = "unit"
    unit: str  # its name, such as `systemd-logind`, which fails where a directory in its sandbox does not answer

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (self.unit,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """It has not failed."""
        return {"failed": "no"}

    def actual(self, context: Context) -> State:
        """Whether it has, as systemd says."""
        return {"failed": "yes" if show(context, self.unit).get("ActiveState") == "failed" else "no"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Start it, however often it has failed before. Raises ResourceFailed if it does not start."""
        context.run(["systemctl", "reset-failed", self.unit])
        context.must(["systemctl", "start", self.unit])
