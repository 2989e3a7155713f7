"""Packages that slurmfab installed for a part of the cluster file that is gone."""

from __future__ import annotations

from typing import ClassVar, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import added_packages, apt_errors, dpkg_status
from slurmfab.on_hosts.agent.packages.apt import apt_get
from slurmfab.on_hosts.agent.packages.removed_packages import removed


class FormerPackages(Resource):
    """Packages that slurmfab installed and that are removed, unless something else has come to depend on them.

    Only those in the host's record are removed. What they depend on stays, as with `apt-get remove`.
    """

    kind: ClassVar[str] = "packages-former"
    deadline: ClassVar[float] = 7200.0
    names: Tuple[str, ...]

    def name(self) -> str:
        """The package names, with commas."""
        return ",".join(self.names)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of them in the record."""
        return dict.fromkeys(self.names)

    def actual(self, context: Context) -> State:
        """Those in the record."""
        return dict.fromkeys(added_packages.read(context).intersection(self.names), "installed by slurmfab")

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Remove those that nothing else needs, and forget all of them. Raises ResourceFailed if apt-get failed."""
        states = dpkg_status.states(dpkg_status.read(context.root), self.names)
        present = [package for package in self.names if package in differing and package in states]
        needed: List[str] = []
        # Each question takes apt-get a second or more; mostly, all packages can go together.
        if set(taken_along(context, *present)) - set(present):
            needed = [package for package in present if set(taken_along(context, package)) - set(present)]
        leaving = [package for package in present if package not in needed]
        if leaving:
            code, output = apt_get(context, ["remove", "--", *leaving])
            if code != 0:
                raise ResourceFailed(apt_errors.explain(output))
        if needed:
            context.remark = "%s stays, because other packages need it" % ", ".join(needed)
        added_packages.forget(context, self.names)


def taken_along(context: Context, *packages: str) -> List[str]:
    """The packages that apt-get would remove with these, themselves included."""
    if not packages:
        return []
    _, plan = apt_get(context, ["--simulate", "remove", "--", *packages])
    return removed(plan)
