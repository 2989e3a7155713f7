"""Rules about the directories that jobs get on their nodes' own disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import Mount, covering, needs_network
from slurmfab.cluster.inventory.rules.directories import named, overlap
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.gres import SCRATCH, gres_value, parsed

PATH = ("scratch", "path")


def scratch_is_on_known_nodes(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Only compute nodes run jobs."""
    known = frozenset(cluster.compute_nodes)
    for number, group in enumerate(cluster.scratch.groups if cluster.scratch else ()):
        strange = [host for host in group.hosts if host not in known]
        if strange:
            yield ("scratch", "groups", number, "hosts"), f'"{fold(strange)}" is not a compute node'


def scratch_is_counted_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmfab adds `scratch` to the Gres of nodes, and to GresTypes unless the user writes that."""
    if cluster.scratch is None:
        return
    for number, group in enumerate(cluster.nodes):
        names = {device.name for device in map(parsed, (gres_value(group.settings) or "").split(",")) if device}
        if SCRATCH in names:
            key = next(key for key in group.settings if key.lower() == "gres")
            yield ("nodes", number, "settings", key), "the key scratch at the top adds scratch itself; remove it here"
    for key, value in cluster.slurm_conf.items():
        if key.lower() == "grestypes" and SCRATCH not in {name.strip() for name in (value or "").split(",")}:
            yield ("slurm_conf", key), "the key scratch at the top needs scratch among these names"


def scratch_has_its_variables(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A variable has one value."""
    if cluster.scratch is None or cluster.job_environment is None:
        return
    environment = cluster.job_environment
    lists: list[tuple[Place, Mapping[str, str]]] = [(("all",), environment.all)]
    lists += [(("groups", number, "variables"), group.variables) for number, group in enumerate(environment.groups)]
    for place, variables in lists:
        for name in cluster.scratch.variables:
            if name in variables:
                yield ("job_environment", *place, name), "the key scratch sets this variable; remove one of the two"


def scratch_is_a_directory_of_its_own(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Only directories of jobs are there: what else has the name of a job would be removed."""
    if cluster.scratch is None:
        return
    path = cluster.scratch.path
    others = {directory: ".".join(map(str, place)) for place, directory in named(cluster) if place != PATH}
    others |= {user.home_directory: f"the home of {user.name}" for user in cluster.users}
    others |= {cluster.homes: "the directory of homes"} if cluster.homes else {}
    private = cluster.private_tmp.directories if cluster.private_tmp else ()
    others |= dict.fromkeys(private, "private_tmp, of which each job sees another one")
    for directory, what in others.items():
        if overlap(path, directory):
            yield PATH, f'"{path}" contains or is inside {directory}, which is {what}'


def scratch_is_on_a_disk_of_the_node(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Nodes that share a directory would remove each other's; and nothing else is mounted among those of jobs."""
    if cluster.scratch is None:
        return
    told = set[str]()
    for node in cluster.compute_nodes if cluster.mounts or cluster.served else ():
        reason = wrong_mount(cluster.scratch.path, mounts_of(cluster, node)) if cluster.scratch.of_node(node) else ""
        if reason and reason not in told:
            told.add(reason)
            yield PATH, reason


def wrong_mount(path: str, mounts: tuple[Mount, ...]) -> str:
    """Why a directory of jobs cannot be where the mounts of a node put it; empty if it can."""
    inside = next((one for one in mounts if one.path.startswith(f"{path}/")), None)
    if inside is not None:
        return f"{inside.path} is mounted inside of it; only directories of jobs can be there"
    below = covering(mounts, path)
    if below is not None and needs_network(below, mounts):
        return f'"{path}" is on {below.path} ({below.type}), which nodes share; each needs a disk of its own for it'
    if below is not None and below.is_read_only:
        return f'"{path}" is on {below.path}, which is mounted read-only'
    return ""


RULES = (
    scratch_is_on_known_nodes,
    scratch_is_counted_once,
    scratch_has_its_variables,
    scratch_is_a_directory_of_its_own,
    scratch_is_on_a_disk_of_the_node,
)
