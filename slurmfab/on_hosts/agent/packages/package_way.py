"""The way by which this host's apt gets packages in a run: out of a directory with files from the controller."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.packages import apt, lent_files


class PackageWay(Resource):
    """apt's further calls of this run take files out of a directory; it leaves no setting, so it never differs."""

    kind: ClassVar[str] = "package-way"
    only_name: ClassVar[str] = "controller"
    bundle: str  # the digest by which the directory is called

    def actual(self, context: Context) -> State:
        """Nothing."""
        apt.WAY[:] = lent_files.options(context, self.bundle)
        return {}
