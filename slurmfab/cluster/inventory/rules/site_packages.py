"""Rules about the packages of the site's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.site_packages import DEB, ROLES, wanted_from
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.slurm.platform import PLATFORMS

OF_SLURMFAB = frozenset(
    name for one in PLATFORMS.values() for name in (*one.database.packages, *one.packages_of(ROLES.values()))
)
"""Packages that slurmfab installs by the roles of hosts."""

DAEMONS = frozenset(name for one in PLATFORMS.values() for name in one.daemon_packages.values())
"""Packages whose daemons would be at work on hosts that do not have their role."""


def packages_of_known_hosts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A group's packages are for hosts of the cluster; a group without hosts would be forgotten there."""
    known = frozenset(cluster.hosts)
    for number, group in enumerate(cluster.packages.groups):
        strange = [host for host in group.hosts if host not in known]
        if strange:
            yield ("packages", "groups", number, "hosts"), f'"{fold(strange)}" is no host of this cluster'
        elif not group.hosts:
            yield ("packages", "groups", number, "hosts"), "it is empty; it needs at least one host"


def slurms_packages_come_by_role(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Slurm has one version on all hosts, and its daemons run where the file gives a host their role."""
    for place, texts in _lists(cluster):
        for text in texts:
            name = wanted_from(text).name
            if name in DAEMONS or (name in OF_SLURMFAB and has_version(text)):
                yield place, f'"{text}": slurmfab installs {name} where the roles of hosts need it; remove it here'


def one_version_on_each_host(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A host has one version of a package, whichever lists it is in."""
    if not any(has_version(text) for _, texts in _lists(cluster) for text in texts):
        return
    wrong = defaultdict[tuple[str, tuple[str, ...]], list[str]](list)
    for host in cluster.hosts:
        versions = defaultdict[str, list[str]](list)
        for one in cluster.packages.of_host(host, cluster.roles(host)):
            versions[one.name].append(one.text)
        for name, found in versions.items():
            if len(found) > 1:
                wrong[name, tuple(found)].append(host)
    for (_, texts), hosts in wrong.items():
        yield ("packages",), f"{' and '.join(texts)} are for the same host ({fold(hosts)}); it can have one of them"


def has_version(text: str) -> bool:
    """Whether a package has a version in the cluster file, or in a file of its own."""
    return "=" in text or text.endswith(DEB)


def _lists(cluster: Cluster) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Yield each list of packages with its place."""
    for key in ("all", *ROLES):
        yield ("packages", key), getattr(cluster.packages, key)
    for number, group in enumerate(cluster.packages.groups):
        yield ("packages", "groups", number, "packages"), group.packages


RULES = (packages_of_known_hosts, slurms_packages_come_by_role, one_version_on_each_host)
