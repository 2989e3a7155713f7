"""Users and groups from a directory, by SSSD on all hosts: its settings, PAM and NSS, and who may log in."""

from __future__ import annotations

from slurmfab.base.paths import SSSD_CONF, UNIT_FILES
from slurmfab.cluster.inventory.directory import Sssd
from slurmfab.cluster.inventory.rules.people import POWERFUL_GROUPS, SYSTEM_NAMES
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import SSSD
from slurmfab.core.plan.phases.capability import once, owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.people.directory_service import CA, HOMES_FILE, HOMES_TEXT, OF, UNIT, DirectoryService
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

ORDER = "directory-order"  # what hosts note the file as that has SSSD start before Slurm
DROP_IN = f"{UNIT_FILES}/{UNIT}.service.d/slurmfab-directory.conf"
BEFORE_SLURM = """\
# Made by slurmfab from the cluster file, for directory; edits here are overwritten.
[Unit]
# Debian 12's units of Slurm do not say so themselves, and slurmctld would not know users at its start.
Before=slurmctld.service slurmdbd.service slurmd.service
"""

DAEMONS = ("slurm", "munge")
POWERFUL_GIDS = (4, 6, 15, 27, 42)
"""adm, disk, kmem, sudo and shadow, which have these numbers on each Debian (base-passwd)."""

OPTIONS = {
    "default_shell": "/bin/bash",
    "entry_cache_timeout": "600",  # seconds after which SSSD asks again; its own 90 minutes are long for new members
    "ldap_network_timeout": "3",
    "ldap_opt_timeout": "5",
}
"""What a site may have otherwise."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """SSSD's settings, and that PAM and NSS ask it; their removal where the cluster file has no directory.

    A change of an earlier run that was never proved, and that the host could not take back itself, is taken back first.
    """
    if plan_input.cluster.directory is not None:
        return LoginGuard(proved=False), DirectoryService(OF, files(plan_input))
    return (LoginGuard(proved=False), DirectoryService(OF, ())) if plan_input.owns(host, OF) else ()


def service(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """SSSD, started at boot, before Slurm; its end where it was slurmfab's and the cluster file has no directory."""
    if plan_input.cluster.directory is not None:
        order = owned(plan_input, host, ORDER, (OwnedFile(DROP_IN, BEFORE_SLURM),))
        return (*order, UnitsLoaded(ORDER, (UNIT,), (DROP_IN,)), Service(UNIT, watches=(SSSD_CONF, CA)))
    order = owned(plan_input, host, ORDER, ())
    if not order:
        return ()
    is_ours = SSSD[0] in plan_input.facts[host].added_packages
    return (*((Service(UNIT, running=False),) if is_ours else ()), *order, UnitsLoaded(ORDER, (UNIT,)))


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
    own = {"ldap_schema": "ad"} if sssd.type == "ad" else search_bases(plan_input, sssd)
    values = {
        "sssd": sssd,
        "ca": CA,
        "password": plan_input.directory_password,
        "options": {**OPTIONS, **sssd.options, **own},
        "homes": plan_input.cluster.homes or "/home",
        "system_users": SYSTEM_NAMES,
        "system_groups": POWERFUL_GROUPS,
    }
    return fill("sssd.conf", values)


def search_bases(plan_input: PlanInput, sssd: Sssd) -> dict[str, str]:
    """Where users and groups are searched, without those whose numbers would make their members powerful.

    SSSD's min_id keeps no user out of a group with a lower number (seen with 2.8 and 2.10). A site's own base with a
    filter of its own stays as it is.
    """
    ids = plan_input.lock.ids
    taken = {kind: [ids[f"{name}.{kind}"] for name in DAEMONS if f"{name}.{kind}" in ids] for kind in ("uid", "gid")}
    numbers = {"user": ("uidNumber", taken["uid"]), "group": ("gidNumber", [*POWERFUL_GIDS, *taken["gid"]])}
    found = {}
    for what, (attribute, some) in numbers.items():
        key = f"ldap_{what}_search_base"
        base = sssd.options.get(key, sssd.base)
        without = "".join(f"({attribute}={number})" for number in some)
        found[key] = base if "?" in base else f"{base}?subtree?(!(|{without}))"
    return found


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:  # noqa: ARG001 - as of all capabilities
    """SSSD, and what asks it for users, groups and logins."""
    return SSSD if plan_input.cluster.directory is not None else ()
