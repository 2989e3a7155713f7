"""Users and groups from a directory, by SSSD on all hosts: its settings, PAM and NSS, and who may log in."""

from __future__ import annotations

from slurmfab.base.paths import SSSD_CONF
from slurmfab.cluster.inventory.directory import Sssd
from slurmfab.cluster.inventory.rules.people import POWERFUL_GROUPS, SYSTEM_NAMES
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import SSSD
from slurmfab.core.plan.phases.once import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.identities.directory_service import CA, HOMES_FILE, HOMES_TEXT, OF, DirectoryService
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.services.service import Service

UNIT = "sssd"

OPTIONS = {
    "default_shell": "/bin/bash",
    "entry_cache_timeout": "600",  # seconds after which SSSD asks again; its own 90 minutes are long for new members
    "ldap_network_timeout": "3",
    "ldap_opt_timeout": "5",
}
"""What a site may have otherwise."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """SSSD with its settings; their removal where the cluster file has no directory, and its end if it was slurmfab's.

    A change of an earlier run that was never proved, and that the host could not take back itself, is taken back first.
    """
    directory, unproved = plan_input.cluster.directory, LoginGuard(proved=False)
    if directory is not None:
        service = Service(UNIT, watches=(SSSD_CONF, CA))
        return unproved, DirectoryService(OF, files(plan_input)), service
    if host not in plan_input.facts or OF not in plan_input.facts[host].owned:
        return ()
    is_ours = SSSD[0] in plan_input.facts[host].added_packages
    after = Service(UNIT, running=False) if is_ours else Service(UNIT, watches=(SSSD_CONF,))
    return unproved, DirectoryService(OF, ()), after


@once
def files(plan_input: PlanInput) -> tuple[OwnedFile, ...]:
    """The files of SSSD, the same on all hosts."""
    directory = plan_input.cluster.directory
    assert directory is not None, "there are files for a directory alone"
    homes = (OwnedFile(HOMES_FILE, HOMES_TEXT),) if directory.sssd.homes == "login" else ()
    return (
        OwnedFile(CA, plan_input.directory_ca),
        OwnedFile(SSSD_CONF, settings(plan_input, directory.sssd), mode=0o600, secret=True),
        *homes,
    )


def settings(plan_input: PlanInput, sssd: Sssd) -> str:
    """The text of sssd.conf(5), with the password of the entry as which SSSD searches."""
    values = {
        "sssd": sssd,
        "ca": CA,
        "password": plan_input.directory_password,
        "options": {**OPTIONS, **({"ldap_schema": "ad"} if sssd.type == "ad" else {}), **sssd.options},
        "homes": plan_input.cluster.homes or "/home",
        "system_users": SYSTEM_NAMES,
        "system_groups": POWERFUL_GROUPS,
    }
    return fill("sssd.conf", values)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:  # noqa: ARG001 - as of all capabilities
    """SSSD, and what asks it for users, groups and logins."""
    return SSSD if plan_input.cluster.directory is not None else ()
