"""Where hosts get packages from: the repositories that they are configured with, or files that the deployer sends.

A cluster file can name bundles, which are such files. The engine knows this interface alone; the tasks choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory
    from slurmfab.core.engine.run import Run
    from slurmfab.core.plan.plan_input import PlanInput

ResourcesByHost = Mapping[str, tuple[Any, ...]]
"""The resources of a phase, by host."""


class PackageSource(Protocol):
    """Gives hosts the packages that a deployment installs."""

    def refusals(self, inventory: Inventory, plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
        """The hosts that lack packages which this source does not have, each with the reason.

        Args:
            plan_input: what the plan is made from.

        Raises:
            InputError: a file that is needed is missing, damaged or another one than before.
        """

    def deliver(self, run: Run, plan_input: PlanInput, resources: ResourcesByHost) -> ResourcesByHost:
        """Send packages to the hosts that lack them.

        Args:
            run: a host to which packages cannot be sent is excluded from it.
            resources: the resources of the next phase, by host.

        Returns:
            These resources, with packages to be installed from what was sent.

        Raises:
            InputError: a file that is needed is missing, damaged or another one than before.
        """


@dataclass(frozen=True)
class HostRepositories:
    """Hosts download packages from the repositories in their own apt configuration; the deployer sends nothing."""

    def refusals(self, inventory: Inventory, plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
        """None: whether a repository has a package shows when the host installs it."""
        del plan_input, hosts
        assert not inventory.cluster.bundle, "a cluster file with bundles needs a source that reads them"
        return {}

    def deliver(self, run: Run, plan_input: PlanInput, resources: ResourcesByHost) -> ResourcesByHost:
        """The resources as they are."""
        del run, plan_input
        return resources
