"""Rules about containers of users."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import PYXIS_DROP_IN, SLURM_DIRECTORY
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import covering, needs_network
from slurmfab.cluster.inventory.people_ids import mistakes
from slurmfab.cluster.inventory.rules.directories import overlap
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.software import APPTAINER_SETUID, ENROOT, PYXIS


def users_have_subordinate_ids(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Podman maps the users of a container to numbers of its user's own, which follow from the UID."""
    if not cluster.has_podman or not cluster.unix_users:
        return
    places = {user.name: number for number, user in enumerate(cluster.users)}
    numbers = {f"{user.name}.uid": user.uid for user in cluster.users if user.uid}
    for name, reason in mistakes(cluster, numbers):
        yield ("users", places[name], "uid"), reason


def enroot_has_its_packages(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """No release has enroot or pyxis, and srun needs pyxis where it starts as much as where a job runs.

    A job whose node alone lacks pyxis runs outside of its container, and Slurm says so in the node's log alone.
    """
    if cluster.containers is None or "enroot" not in cluster.containers.use:
        return
    wanted = {host: names_on(cluster, host) for host in cluster.hosts if WORKED_ON & set(cluster.roles(host))}
    for names, example in ((ENROOT, "enroot_4.1.2-1_amd64.deb"), ((PYXIS,), f"{PYXIS}_0.24.0-1_amd64.deb")):
        without = [host for host, there in wanted.items() if not there & set(names)]
        if without:
            reason = f"{names[0]} comes from its authors; name it under packages for {fold(without)}"
            yield ("containers",), f"{reason}, such as packages: {{all: [./{example}]}}"


def apptainer_needs_no_setuid(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """The package with the setuid program gives every user a way to root that Apptainer can do without."""
    if cluster.containers is None or "apptainer" not in cluster.containers.use:
        return
    if any(one.name == APPTAINER_SETUID for one in cluster.packages.everything):
        yield (("packages",), f"{APPTAINER_SETUID} lets Apptainer work as root, which it does not need; remove it")


def pyxis_is_loaded_by_slurmfab(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Slurm reads one plugstack.conf, and loads a plugin twice that it finds twice."""
    if cluster.containers is None or "enroot" not in cluster.containers.use:
        return
    for name in cluster.slurm_files:
        if f"{SLURM_DIRECTORY}/{name}" == PYXIS_DROP_IN:
            yield ("slurm_files", name), "slurmfab writes it for containers; remove one of the two"
    for key in cluster.slurm_conf:
        if key.lower() == "plugstackconfig":
            yield (("slurm_conf", key), "containers has Slurm load pyxis from plugstack.conf.d; remove this key")


def docker_is_for_users_of_the_file(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Whoever is in the group of Docker is as good as root: a typing mistake would let somebody else in, or nobody."""
    if cluster.containers is None or not cluster.unix_users:
        return
    known = {user.name for user in cluster.users}
    for number, name in enumerate(cluster.containers.docker.users):
        if name not in known:
            yield ("containers", "docker", "users", number), f'"{name}" is not in users'


def names_on(cluster: Cluster, host: str) -> set[str]:
    """The names of the site's own packages on a host."""
    return {one.name for one in cluster.packages.of_host(host, cluster.roles(host))}


WORKED_ON = frozenset({"controller", "login", "compute"})  # the roles of hosts on which people or jobs work


def podman_has_its_prolog(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Jobs find what Podman needs because a script of slurmfab's runs before them."""
    for key in cluster.slurm_conf if cluster.has_podman else ():
        if key.lower() in ("prolog", "epilog"):
            reason = (
                "podman under containers needs a prolog of slurmfab's; put your scripts into a directory and name it"
            )
            yield ("slurm_conf", key), f"{reason} by the key {key.lower()} at the top"


def images_are_on_a_disk_of_the_host(cluster: Cluster) -> Iterator[tuple[Place, str]]:
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


RULES = (
    users_have_subordinate_ids,
    enroot_has_its_packages,
    apptainer_needs_no_setuid,
    pyxis_is_loaded_by_slurmfab,
    docker_is_for_users_of_the_file,
    podman_has_its_prolog,
    images_are_on_a_disk_of_the_host,
)
