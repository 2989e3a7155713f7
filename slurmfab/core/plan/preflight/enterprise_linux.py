"""What slurmfab cannot do on Enterprise Linux yet: told before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.base.errors import InputError
from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.platform import DNF, Platform, wanted
from slurmfab.core.plan.phases import packages
from slurmfab.core.plan.phases.ssh import SEMANAGE
from slurmfab.core.plan.plan_input import PlanInput

PAGE = "docs/enterprise-linux.md"


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse capabilities whose packages slurmfab knows on other systems alone. Raises InputError with the packages."""
    cluster = plan_input.cluster
    theirs = [host for host in cluster.hosts if plan_input.platform_of(host).manager == DNF]
    files = {one.file for host in theirs for one in packages.own(plan_input, host) if one.file}
    if files:
        raise InputError(
            f"packages: {', '.join(sorted(files))}: Enterprise Linux has no .deb files, and slurmfab "
            f"does not send .rpm files yet ({PAGE}). Nothing was changed."
        )
    refuse_confined(plan_input)
    lacking: dict[str, list[str]] = {}
    for host in (host for host in theirs if host in plan_input.facts):
        own = {one.name for one in packages.own(plan_input, host)}
        for name in packages.wanted(plan_input, host) - known(plan_input.platform_of(host)) - own:
            lacking.setdefault(name, []).append(host)
    if lacking:
        hosts = tuple(host for host in theirs if any(host in some for some in lacking.values()))
        told = "the cluster file asks for what slurmfab cannot do on Enterprise Linux yet: it would need "
        told += f"{', '.join(sorted(lacking))} there. Remove those keys; {PAGE} lists them."
        objected([Objection(hosts, told)])


def refuse_confined(plan_input: PlanInput) -> None:
    """Refuse to close nodes whose SELinux keeps sshd from taking logins into jobs. Raises InputError with the nodes."""
    facts = plan_input.facts
    confined = [host for host in facts if facts[host].enforces_selinux and plan_input.cluster.closes(host)]
    if confined:
        told = "node_logins: with_job cannot be where SELinux enforces its policy, which lets sshd neither ask "
        told += f"slurmd's steps nor move a login into a job's control group ({PAGE}). Make it permissive (setenforce "
        told += "0, and SELINUX=permissive in /etc/selinux/config), or remove node_logins."
        objected([Objection((*confined,), told)])


def known(platform: Platform) -> set[str]:
    """The packages that deployments to Enterprise Linux were tried with."""
    roles = platform.packages_of(platform.by_role)
    return {"sudo", "ipmitool", SEMANAGE, platform.pam, *roles, *platform.database.packages, platform.bus}


def refuse_bundle(cluster: Cluster, source: str, names: Iterable[str]) -> None:
    """Refuse a bundle with packages that slurmfab knows on other systems alone. Raises InputError with their names.

    `source`: the host that collects these packages.
    """
    kind = wanted(cluster, source)
    if kind.manager != DNF:
        return
    lacking = {*names} - known(kind) - {one.name for one in cluster.packages.everything}
    if lacking:
        raise InputError(
            "the cluster file asks for what slurmfab cannot do on Enterprise Linux yet: the bundle would need "
            f"{', '.join(sorted(lacking))}. Remove those keys; {PAGE} lists them. Nothing was changed."
        )
