"""Rules about software: ways of containers, packages of the site, and Slurm's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import PYXIS_DROP_IN, SLURM_DIRECTORY, SLURM_SOURCE_FILES
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import covering, needs_network
from slurmfab.cluster.inventory.people_ids import mistakes
from slurmfab.cluster.inventory.rules.storage import overlap
from slurmfab.cluster.inventory.site_packages import DEB, ROLES, wanted_from
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.platform import APT, PLATFORMS
from slurmfab.cluster.slurm.platform import wanted as platform_of
from slurmfab.cluster.slurm.software import APPTAINER_SETUID, ENROOT, PYXIS


def users_have_subordinate_ids(cluster: Cluster) -> Complaints:
    """Podman maps the users of a container to numbers of its user's own, which follow from the UID."""
    if not cluster.has_podman or not cluster.unix_users:
        return
    places = {user.name: number for number, user in enumerate(cluster.users)}
    numbers = {f"{user.name}.uid": user.uid for user in cluster.users if user.uid}
    for name, reason in mistakes(cluster, numbers):
        yield ("users", places[name], "uid"), reason


def enroot_has_its_packages(cluster: Cluster) -> Complaints:
    """No release has enroot or pyxis, and srun needs pyxis where it starts as much as where a job runs.

    A job whose node alone lacks pyxis runs outside of its container, and Slurm says so in the node's log alone.
    """
    if "enroot" not in cluster.container_ways:
        return
    wanted = {
        host: {one.name for one in cluster.packages.of_host(host, cluster.roles(host))}
        for host in cluster.hosts
        if WORKED_ON & set(cluster.roles(host))
    }
    for names, example in ((ENROOT, "enroot_4.1.2-1_amd64.deb"), ((PYXIS,), f"{PYXIS}_0.24.0-1_amd64.deb")):
        without = [host for host, there in wanted.items() if not there & set(names)]
        if without:
            reason = f"{names[0]} comes from its authors; name it under packages for {fold(without)}"
            yield ("containers",), f"{reason}, such as packages: {{all: [./{example}]}}"


def apptainer_needs_no_setuid(cluster: Cluster) -> Complaints:
    """The package with the setuid program gives every user a way to root that Apptainer can do without."""
    if "apptainer" not in cluster.container_ways:
        return
    if any(one.name == APPTAINER_SETUID for one in cluster.packages.everything):
        yield (("packages",), f"{APPTAINER_SETUID} lets Apptainer work as root, which it does not need; remove it")


def pyxis_is_loaded_by_slurmfab(cluster: Cluster) -> Complaints:
    """Slurm reads one plugstack.conf, and loads a plugin twice that it finds twice."""
    if "enroot" not in cluster.container_ways:
        return
    for name in cluster.slurm_files:
        if f"{SLURM_DIRECTORY}/{name}" == PYXIS_DROP_IN:
            yield ("slurm_files", name), "slurmfab writes it for containers; remove one of the two"
    for key in cluster.slurm_conf:
        if key.lower() == "plugstackconfig":
            yield (("slurm_conf", key), "containers has Slurm load pyxis from plugstack.conf.d; remove this key")


def docker_is_for_users_of_the_file(cluster: Cluster) -> Complaints:
    """Whoever is in the group of Docker is as good as root: a typing mistake would let somebody else in, or nobody."""
    if cluster.containers is None or not cluster.unix_users:
        return
    known = {user.name for user in cluster.users}
    for number, name in enumerate(cluster.containers.docker.users):
        if name not in known:
            yield ("containers", "docker", "users", number), f'"{name}" is not in users'


WORKED_ON = frozenset({"controller", "login", "compute"})  # the roles of hosts on which people or jobs work


def podman_has_its_prolog(cluster: Cluster) -> Complaints:
    """Jobs find what Podman needs because a script of slurmfab's runs before them."""
    for key in cluster.slurm_conf if cluster.has_podman else ():
        if key.lower() in ("prolog", "epilog"):
            reason = (
                "podman under containers needs a prolog of slurmfab's; put your scripts into a directory and name it"
            )
            yield ("slurm_conf", key), f"{reason} by the key {key.lower()} at the top"


def images_are_on_a_disk_of_the_host(cluster: Cluster) -> Complaints:
    """File servers take no files of subordinate IDs; and hosts that share a directory would disturb each other."""
    if cluster.containers is None or not cluster.has_podman:
        return
    place, path = ("containers", "podman", "storage"), cluster.containers.podman.storage
    told = set[str]()
    for host in cluster.hosts if cluster.mounts or cluster.served else ():
        mounts = mounts_of(cluster, host)
        below = covering(mounts, path)
        if below is not None and needs_network(below, mounts) and below.path not in told:
            told.add(below.path)
            yield place, f'"{path}" is on {below.path} ({below.type}), which hosts share; each needs a disk of its own'
    for user in cluster.users:
        if overlap(path, user.home_directory):
            yield place, f'"{path}" contains or is inside {user.home_directory}, which is the home of {user.name}'
            return


OF_SLURMFAB = frozenset(
    name for one in PLATFORMS.values() for name in (*one.database.packages, *one.packages_of(ROLES.values()))
)
"""Packages that slurmfab installs by the roles of hosts."""

DAEMONS = frozenset(name for one in PLATFORMS.values() for name in one.daemon_packages.values())
"""Packages whose daemons would be at work on hosts that do not have their role."""


def packages_of_known_hosts(cluster: Cluster) -> Complaints:
    """A group's packages are for hosts of the cluster; a group without hosts would be forgotten there."""
    known = frozenset(cluster.hosts)
    for number, group in enumerate(cluster.packages.groups):
        strange = [host for host in group.hosts if host not in known]
        if strange:
            yield ("packages", "groups", number, "hosts"), f'"{fold(strange)}" is no host of this cluster'
        elif not group.hosts:
            yield ("packages", "groups", number, "hosts"), "it is empty; it needs at least one host"


def slurms_packages_come_by_role(cluster: Cluster) -> Complaints:
    """Slurm has one version on all hosts, and its daemons run where the file gives a host their role."""
    for place, texts in _lists(cluster):
        for text in texts:
            name = wanted_from(text).name
            if name in DAEMONS or (name in OF_SLURMFAB and has_version(text)):
                yield place, f'"{text}": slurmfab installs {name} where the roles of hosts need it; remove it here'


def one_version_on_each_host(cluster: Cluster) -> Complaints:
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


def packages_come_by_one_way(cluster: Cluster) -> Complaints:
    """A bundle has all packages already; and what the controller fetches is for apt."""
    if cluster.packages.through and cluster.bundle:
        yield ("packages", "through"), "packages come from the bundle; remove one of the two"
    elif cluster.packages.through and platform_of(cluster, cluster.controller).manager != APT:
        yield (
            ("packages", "through"),
            "it is for a controller with apt; without one, hosts that reach no mirror need a bundle",
        )


def files_of_the_source_are_slurmfabs(cluster: Cluster) -> Complaints:
    """Of two contents for one file, only one would be there."""
    for path in SLURM_SOURCE_FILES if any(one.source is not None for one in cluster.slurms) else ():
        if path in cluster.files:
            yield ("files", path), "slurmfab writes it for the key slurm"


def controllers_have_the_clusters_packages(cluster: Cluster) -> Complaints:
    """The version of the key `slurm` is the controllers', by which plans, upgrades and backups know Slurm's files."""
    groups = ((("nodes", number, "slurm"), group.slurm, group.hosts) for number, group in enumerate(cluster.nodes))
    for place, slurm, hosts in (*groups, (("login_slurm",), cluster.login_slurm, cluster.login)):
        controllers = [host for host in hosts if host in cluster.controllers and slurm is not None]
        if controllers:
            yield place, f"{fold(controllers)} is a controller, whose packages the key slurm of the cluster says"
