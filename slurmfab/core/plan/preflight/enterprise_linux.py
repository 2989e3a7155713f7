"""What slurmfab cannot do on Enterprise Linux yet: told before anything is changed."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold, natural
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.platform import DNF, Platform, wanted
from slurmfab.core.plan.phases import packages
from slurmfab.core.plan.plan_input import PlanInput

PAGE = "docs/enterprise-linux.md"


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse capabilities whose packages slurmfab knows on other systems alone. Raises InputError with the packages."""
    if plan_input.platform.manager != DNF:
        return
    if plan_input.cluster.bundle:
        raise InputError(f"bundle: there are none for Enterprise Linux yet ({PAGE}). Nothing was changed.")
    if plan_input.deb_files:
        raise InputError(
            f"packages: {', '.join(sorted(plan_input.deb_files))}: Enterprise Linux has no .deb files, and slurmfab "
            f"does not send .rpm files yet ({PAGE}). Nothing was changed."
        )
    lacking: dict[str, list[str]] = {}
    for host in plan_input.facts:
        own = {one.name for one in packages.own(plan_input, host)}
        for name in packages.wanted(plan_input, host) - known(plan_input.platform) - own:
            lacking.setdefault(name, []).append(host)
    if lacking:
        hosts = fold(sorted({host for some in lacking.values() for host in some}, key=natural))
        raise InputError(
            f"{hosts}: the cluster file asks for what slurmfab cannot do on Enterprise Linux yet: it would need "
            f"{', '.join(sorted(lacking))} there. Remove those keys; {PAGE} lists them. Nothing was changed."
        )


def known(platform: Platform) -> set[str]:
    """The packages that deployments to Enterprise Linux were tried with."""
    roles = platform.packages_of(platform.by_role)
    return {"sudo", "ipmitool", *roles, *platform.database.packages, platform.bus}


def refuse_command(cluster: Cluster, command: str) -> None:
    """Refuse a command that works with apt alone. Raises InputError for a cluster on Enterprise Linux."""
    if wanted(cluster).manager == DNF:
        raise InputError(f"{command} is not there for Enterprise Linux yet ({PAGE}). Nothing was changed.")
