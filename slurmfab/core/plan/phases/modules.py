"""The command `module` on hosts on which people or jobs work: its package, and MODULEPATH in login shells."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.base.paths import MODULES_PROFILE
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import ENVIRONMENT_MODULES, LMOD, MODULE_SYSTEMS
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages

CAPABILITY = "modules"
ROLES = frozenset({"controller", "login", "compute"})
"""The roles of hosts on which people or jobs work; the host of slurmdbd alone is none."""

INIT: Mapping[str, str] = {LMOD: "/usr/share/lmod/lmod/init/bash", ENVIRONMENT_MODULES: "/usr/share/modules/init/bash"}
"""By package, the file that defines `module` for bash."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The profile of login shells; without the key, its removal where a host still has it."""
    modules = plan_input.cluster.modules
    if modules is None or not is_for(plan_input, host):
        return owned(plan_input, host, CAPABILITY, ())
    text = fill("modules.sh", {"path": modules.path, "init": INIT[modules.system]})
    return owned(plan_input, host, CAPABILITY, (OwnedFile(MODULES_PROFILE, text),))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The package that provides `module`."""
    modules = plan_input.cluster.modules
    return (modules.system,) if modules and is_for(plan_input, host) else ()


def makes_room(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of the other package if slurmfab installed it: apt-get installs none while that is there."""
    wanted = packages(plan_input, host)
    added = plan_input.facts[host].added_packages if host in plan_input.facts else ()
    others = tuple(name for name in MODULE_SYSTEMS if wanted and name not in wanted and name in added)
    return (FormerPackages(others),) if others else ()


def is_for(plan_input: PlanInput, host: str) -> bool:
    """Whether people or jobs work on a host."""
    return bool(ROLES & set(plan_input.cluster.roles(host)))
