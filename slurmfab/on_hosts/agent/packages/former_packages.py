"""Packages that slurmfab installed for a part of the cluster file that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, FrozenSet, Iterable, List, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import ADDED_PACKAGES
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_parent
from slurmfab.on_hosts.agent.packages import apt_errors, dpkg_status
from slurmfab.on_hosts.agent.packages.apt import apt_get

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.core.resource import Context


class RemovedPackages(Resource):
    """Packages that are removed, and not purged.

    On purge, Debian's slurm-wlm-basic-plugins deletes all of /etc/slurm and the user slurm, whatever else needs them
    (its postrm script).
    """

    kind: ClassVar[str] = "packages-gone"
    deadline: ClassVar[float] = 7200.0
    names: Tuple[str, ...]
    # Those that are never removed along with others: Debian's slurmctld cancels all jobs of its cluster on removal (its
    # prerm script).
    protected: Tuple[str, ...] = ()

    def name(self) -> str:
        """The package names, with commas."""
        return ",".join(self.names)

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


def read_added(context: Context) -> FrozenSet[str]:
    """The names in the record; none where there is no record."""
    return frozenset((replace.read(context.path(ADDED_PACKAGES)) or b"").decode(errors="replace").split())


def note_packages(context: Context, names: Iterable[str]) -> None:
    """Add packages that are about to be installed."""
    write(context, read_added(context) | frozenset(names))


def forget_packages(context: Context, names: Iterable[str]) -> None:
    """Drop packages that are removed, or that are somebody else's from now on."""
    write(context, read_added(context) - frozenset(names))


def write(context: Context, names: FrozenSet[str]) -> None:
    """Write the record if it says something else; without names there is none."""
    path = context.path(ADDED_PACKAGES)
    if names == read_added(context):
        return
    if not names:
        replace.unlink(path)
        return
    folder, name = open_parent(path, make=True)
    with folder:
        replace.put_in(folder, name, "".join("%s\n" % one for one in sorted(names)).encode(), (0, 0, 0o644))


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
        return dict.fromkeys(read_added(context).intersection(self.names), "installed by slurmfab")

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
        forget_packages(context, self.names)


def taken_along(context: Context, *packages: str) -> List[str]:
    """The packages that apt-get would remove with these, themselves included."""
    if not packages:
        return []
    _, plan = apt_get(context, ["--simulate", "remove", "--", *packages])
    return removed(plan)
