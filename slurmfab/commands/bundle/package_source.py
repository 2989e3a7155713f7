"""The source of packages that every task gives to the engine: bundles and files that the cluster file names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory
    from slurmfab.core.engine.run import ResourcesByHost, Run
    from slurmfab.core.plan.plan_input import PlanInput


@dataclass(frozen=True)
class BundleSource:
    """Packages from the cluster file's bundles, whose modules are loaded only then; else from hosts' repositories."""

    def refusals(self, inventory: Inventory, plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
        """The hosts that lack packages which no bundle or file has, with the reason; see `PackageSource.refusals`."""
        if plan_input.cluster.bundle:
            from slurmfab.commands.bundle import selection

            return selection.refusals(inventory, plan_input, hosts)
        reasons: dict[str, str] = {}
        if plan_input.deb_files or plan_input.slurm_package_files:
            from slurmfab.commands.bundle import sending

            reasons = sending.refusals(plan_input, hosts)
        if plan_input.cluster.packages.through:
            from slurmfab.commands.bundle import through_controller

            reasons = {**through_controller.refusals(plan_input, hosts), **reasons}
        return reasons

    def deliver(self, run: Run, plan_input: PlanInput, resources: ResourcesByHost) -> ResourcesByHost:
        """Send packages to the hosts that lack them, or show them the way; see `PackageSource.deliver`."""
        if plan_input.cluster.bundle:
            from slurmfab.commands.bundle import sending

            return sending.deliver_bundle(run, plan_input, resources)
        if plan_input.deb_files or plan_input.slurm_package_files:
            from slurmfab.commands.bundle import sending

            resources = sending.deliver_files(run, plan_input, resources)
        if plan_input.cluster.packages.through:
            from slurmfab.commands.bundle import through_controller

            return through_controller.deliver(run, plan_input, resources)
        return resources
