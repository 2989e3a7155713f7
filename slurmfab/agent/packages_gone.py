"""Packages that are not installed."""

from __future__ import annotations

from typing import ClassVar, List, Tuple

from slurmfab.agent import apt_words
from slurmfab.agent.packages import apt_get, package_states
from slurmfab.agent.reading import read_bytes
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

KEPT = ("slurmctld", "slurmdbd", "slurmrestd")
"""Never removed along with others: Debian's slurmctld cancels all jobs of its cluster on removal (its prerm)."""


class PackagesGone(Resource):
    """Packages that are removed, and not purged.

    On purge, Debian's slurm-wlm-basic-plugins removes all of /etc/slurm and the slurm user, whatever else they are for
    (its postrm).

    Args:
        names: of the packages.
    """

    kind: ClassVar[str] = "packages-gone"
    names: Tuple[str, ...]

    def name(self) -> str:
        """The packages' names with commas."""
        return ",".join(self.names)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of them installed."""
        return dict.fromkeys(self.names)

    def actual(self, context: Context) -> State:
        """dpkg's word for the state of those that it has."""
        return {**package_states(self.names, read_bytes(context.path("/var/lib/dpkg/status")))}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Remove them, and what cannot be without them.

        Raises:
            ResourceFailed: a daemon of Slurm's that is not meant would go as well; or apt fails.
        """
        present = [package for package in self.names if package in differing]
        _, plan = apt_get(context, ["--simulate", "remove", "--", *present])
        unmeant = [package for package in removed(plan) if package in KEPT and package not in present]
        if unmeant:
            raise ResourceFailed(
                "%s would be removed as well; this host is more than a compute node, so nothing was removed. "
                "Remove packages by hand: apt-get remove %s" % (", ".join(unmeant), " ".join(present))
            )
        code, output = apt_get(context, ["remove", "--", *present])
        if code != 0:
            raise ResourceFailed(apt_words.explain(output))


def removed(plan: str) -> List[str]:
    """The packages that apt-get --simulate would remove: its lines `Remv NAME [VERSION]`."""
    return [line.split()[1] for line in plan.splitlines() if line.startswith(("Remv ", "Purg "))]
