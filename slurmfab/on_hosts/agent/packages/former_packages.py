"""Packages that are removed: those that slurmfab installed for a former key, and those that a host needs no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import added_packages, apt_errors, dpkg_status
from slurmfab.on_hosts.agent.packages.apt import apt_get

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.core.resource import Context


class RemovedPackages(Resource):
    """Packages that are removed, and not purged.

    On purge, Debian's slurm-wlm-basic-plugins deletes all of /etc/slurm and the user slurm, whatever else needs them
    (its postrm script).
    """

    kind: ClassVar[str] = "packages-gone"
    named_by: ClassVar[str] = "names"
    deadline: ClassVar[float] = 7200.0
    names: Tuple[str, ...]
    # Those that are never removed along with others: Debian's slurmctld cancels all jobs of its cluster on removal (its
    # prerm script).
    protected: Tuple[str, ...] = ()

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of them installed."""
        return dict.fromkeys(self.names)

    def actual(self, context: Context) -> State:
        """dpkg's state of the packages that are there."""
        return {**dpkg_status.states(dpkg_status.read(context.root), self.names)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Remove them and what depends on them; ResourceFailed if another daemon of Slurm would go."""
        present = [package for package in self.names if package in differing]
        _, plan = apt_get(context, ["--simulate", "remove", "--", *present])
        unmeant = [package for package in removed(plan) if package in self.protected and package not in present]
        if unmeant:
            raise ResourceFailed(
                "%s would be removed as well; this host is more than a compute node, so nothing was removed. "
                "Remove packages by hand: apt-get remove %s" % (", ".join(unmeant), " ".join(present))
            )
        code, output = apt_get(context, ["remove", "--", *present])
        if code != 0:
            raise ResourceFailed(apt_errors.explain(output))


def removed(plan: str) -> List[str]:
    """The packages that `apt-get --simulate` would remove: its lines `Remv NAME [VERSION]`."""
    return [line.split()[1] for line in plan.splitlines() if line.startswith(("Remv ", "Purg "))]


class FormerPackages(Resource):
    """Packages in the record of slurmfab's, removed unless something needs them; what they need stays."""

    kind: ClassVar[str] = "packages-former"
    named_by: ClassVar[str] = "names"
    deadline: ClassVar[float] = 7200.0
    names: Tuple[str, ...]

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of them in the record."""
        return dict.fromkeys(self.names)

    def actual(self, context: Context) -> State:
        """Those of the packages that are in the record."""
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
