"""Users who cannot run containers without root as the cluster file says."""

from __future__ import annotations

import re

from slurmfab.base.errors import InputError
from slurmfab.base.grouping import grouped
from slurmfab.base.objections import Objection, objected
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.inventory.people_ids import mistakes, proposing
from slurmfab.cluster.slurm.software import APPTAINER
from slurmfab.core.plan.phases import apptainer, packages
from slurmfab.core.plan.phases import containers as phase
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse what the hosts cannot carry out. Raises InputError: with the users or hosts; nothing was changed."""
    refuse_numbers(plan_input)
    refuse_missing_apptainer(plan_input)
    refuse_second_pyxis(plan_input)
    refuse_profiles_without_namespaces(plan_input)


def refuse_profiles_without_namespaces(plan_input: PlanInput) -> None:
    """Refuse, by InputError, programs to which a profile of somebody else's is attached that lets them have none.

    A second one attached to the same path would make neither count.
    """
    found = grouped((one, host) for host in plan_input.facts for one in phase.denied(plan_input, host) if one.profile)
    objected(
        Objection(
            (*hosts,),
            "containers: it denies user namespaces to programs of users (kernel.apparmor_restrict_unprivileged_userns "
            f"is 1), and /etc/apparmor.d/{program.profile}, the profile of {program.path}, lacks the rule `userns,`. A "
            "package that was built for another release has such a profile: install that for this one, or write `abi "
            "<abi/4.0>,` and `userns,` into it and load it (apparmor_parser --replace "
            f"/etc/apparmor.d/{program.profile}).",
        )
        for program, hosts in found.items()
    )


def refuse_missing_apptainer(plan_input: PlanInput) -> None:
    """Refuse, by InputError, hosts whose release has no Apptainer, and that get none from the site."""
    hosts = [
        host
        for host in plan_input.facts
        if uses(plan_input, host, "apptainer")
        and apptainer.lacks(plan_input, host)
        and APPTAINER not in {one.name for one in packages.own(plan_input, host)}
    ]
    if hosts:
        told = f"containers: it has a release ({plan_input.facts[hosts[0]].codename}) without Apptainer. Get the "
        told += "package from its authors and name it, such as packages: {all: [./apptainer_1.4.5_amd64.deb]}, or "
        objected([Objection((*hosts,), f"{told}remove apptainer from `containers`.")])


def refuse_second_pyxis(plan_input: PlanInput) -> None:
    """Refuse, by InputError, `slurm_files` that load pyxis too, or a plugstack.conf that hides our drop-in."""
    if "enroot" not in plan_input.cluster.container_ways:
        return
    for file in plan_input.site_files:
        if file.name != PLUGSTACK and not file.name.startswith(f"{PLUGSTACK}.d/"):
            continue
        found = [line for line in file.text.splitlines() if PLUGIN in line.partition("#")[0]]
        if found:
            raise InputError(
                f'slurm_files.{file.name}: its line "{found[0].strip()[:80]}" loads pyxis, as slurmfab does for '
                "`containers`. Remove the line. Nothing was changed."
            )
        if file.name == PLUGSTACK and not INCLUDE.search(file.text):
            raise InputError(
                f"slurm_files.{file.name}: it lacks the line `include {SLURM_DIRECTORY}/{PLUGSTACK}.d/*.conf`, by "
                "which Slurm loads pyxis (containers). Nothing was changed."
            )


PLUGSTACK, PLUGIN = "plugstack.conf", "spank_pyxis.so"
INCLUDE = re.compile(rf"(?m)^\s*include\s+({SLURM_DIRECTORY}/)?{re.escape(PLUGSTACK)}\.d/\*(\.conf)?\s*(#|$)")
"""The line of Debian's plugstack.conf."""


def refuse_numbers(plan_input: PlanInput) -> None:
    """Refuse, by InputError, UIDs without subordinate IDs.

    slurmfab takes many UIDs from hosts, so that the cluster file does not show them.
    """
    cluster = plan_input.cluster
    if not cluster.has_podman or not cluster.unix_users:
        return
    said = {user.name for user in cluster.users if user.uid}
    found: list[Objection | str] = []
    for name, reason in mistakes(cluster, plan_input.lock.ids):
        hosts = () if name in said else tuple(proposing(name, plan_input.lock.ids, plan_input.facts))
        found.append(Objection(hosts, f"{name}: {reason}.") if hosts else f"{name}: {reason}.")
    objected(found, ("containers: podman needs subordinate IDs for each user.", WAY_OUT))


WAY_OUT = "Set other UIDs in the cluster file (users, uid), or remove podman from `containers`. Nothing was changed."
