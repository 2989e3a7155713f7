"""The arguments of checks that are hosts: a check runs once for each such host that the user selected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.storage import mounts_of, places
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.checks.container_ways import CALLS
from slurmfab.commands.checks.wanted import has_gres, sends_mail
from slurmfab.core.plan.phases.restarts import PASSES_SIGPIPE_ON
from slurmfab.core.status.selection import gpus_of


def places_of(inventory: Inventory, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The hosts on which a check runs, by the name of its argument; `hosts` are those that the user selected."""
    cluster, lock = inventory.cluster, inventory.lock
    nodes = [host for host in hosts if "compute" in cluster.roles(host)]
    found: dict[str, Iterable[str]] = {
        "host": hosts,
        "other": [host for host in hosts if host != cluster.controller],
        **compute_nodes(cluster, lock, nodes),
        **servers(cluster, lock),
        **people(cluster, hosts, nodes),
        **software(cluster, lock, hosts, nodes),
        **slurm_logins(cluster, hosts),
    }
    return {name: tuple(host for host in hosts if host in some) for name, some in found.items()}


def compute_nodes(cluster: Cluster, lock: Lock, nodes: Collection[str]) -> dict[str, Iterable[str]]:
    """The selected compute nodes, and those with something."""
    return {
        "node": nodes,
        "gpu_node": [node for node in nodes if gpus_of(cluster, lock, node)],
        "gpus_node": [node for node in nodes if gpus_of(cluster, lock, node) > 1],
        "divided_node": [node for node in nodes if cluster.mig_of(node) is not None and node in lock.hosts],
        "sharing_node": [node for node in nodes if has_gres(cluster, node, "shard")],
        "mps_node": [node for node in nodes if cluster.mps_daemon and has_gres(cluster, node, "mps")],
        # users may log in there only with a job
        "closed_node": [node for node in nodes if cluster.closes(node)],
        # slurmd may pass on to jobs that SIGPIPE is ignored
        "pipe_node": nodes if lock.slurm and SlurmVersion.parse(lock.slurm) >= PASSES_SIGPIPE_ON else (),
        "private_node": nodes if cluster.private_tmp else (),  # jobs have a private /tmp
        "watched": nodes if cluster.health else (),
        "sleeper": [node for node in nodes if cluster.power and node in cluster.power.nodes],
        "gpu_watcher": [node for node in nodes if cluster.idle_gpus and lock.tells_gpu_use(node)],
        "scratch_node": [node for node in nodes if cluster.scratch and cluster.scratch.of_node(node)],
    }


def servers(cluster: Cluster, lock: Lock) -> dict[str, Iterable[str]]:
    """The hosts that serve something, and the primary controller where it has a task."""
    primary, monitoring = (cluster.controller,), cluster.monitoring
    return {
        "backup": cluster.controllers[1:],
        "database": cluster.database_hosts,
        "saver": cluster.backup_hosts,
        "healer": cluster.controllers if cluster.restart_daemons else (),
        "switcher": cluster.controllers if cluster.power else (),
        "x11_controller": primary if cluster.x11 else (),
        "gpu_checker": primary if cluster.gpu_checks else (),
        "gpu_policy": primary if cluster.idle_gpus else (),
        "mpi_controller": primary if cluster.mpi and cluster.mpi.kind != "none" else (),
        "enforcer": primary if cluster.enforces_accounts else (),  # jobs need an account
        "recorder": primary if cluster.has_accounts and not cluster.enforces_accounts else (),  # jobs need none
        "mailer": primary if sends_mail(cluster, lock) else (),
        "rest_host": (cluster.rest.host,) if cluster.rest else (),
        "hub_host": (cluster.jupyter.host,) if cluster.jupyter else (),
        "collector": {*cluster.controllers, *cluster.backup_hosts} if monitoring else (),
        "prometheus_host": (monitoring.prometheus.host,) if monitoring and monitoring.prometheus else (),
        "exporting": cluster.servers,
        "limiting": places(cluster),  # sets quotas
    }


def people(cluster: Cluster, hosts: Sequence[str], nodes: Collection[str]) -> dict[str, Iterable[str]]:
    """The hosts that users enter, and that know users."""
    logins = [host for host in hosts if "login" in cluster.roles(host)]
    return {
        "login_host": logins,
        "limited_host": [host for host in logins if cluster.limits_on(host)],
        "greeting_host": logins if cluster.motd else (),
        # users of other hosts enter it without keys of their own
        "believing_host": {*logins, *nodes} if cluster.user_ssh == "hostbased" else (),
        "helping_host": cluster.helping_hosts,
        "directory_host": hosts if cluster.directory else (),
        "with_people": hosts if cluster.users else (),
        "with_local_people": hosts if cluster.users and cluster.unix_users else (),
    }


def software(cluster: Cluster, lock: Lock, hosts: Sequence[str], nodes: Collection[str]) -> dict[str, Iterable[str]]:
    """The hosts with software and files for users; `worked_on` are those on which people or jobs work."""
    worked_on = [host for host in hosts if not cluster.is_for_database_alone(host)]
    use = cluster.container_ways
    prune = cluster.containers.podman.prune if cluster.containers and cluster.has_podman else None
    known = nodes if set(use) & CALLS.keys() else ()
    return {
        "x11_host": worked_on if cluster.x11 else (),
        "module_host": worked_on if cluster.modules else (),
        "mpi_host": worked_on if cluster.mpi else (),
        "open_mpi_host": worked_on if cluster.mpi and cluster.mpi.packages else (),
        "pyxis_host": worked_on if "enroot" in use else (),
        "apptainer_host": worked_on if "apptainer" in use else (),
        "docker_host": worked_on if "docker" in use else (),
        "podman_host": worked_on if cluster.has_podman else (),
        "pruning_host": worked_on if prune is not None else (),
        "image_host": worked_on if cluster.registry else (),
        "container_node": known,  # has a way of containers that the checks know
        "container_gpu_node": [node for node in known if gpus_of(cluster, lock, node)],
        "notebook_host": {cluster.jupyter.host, *nodes} if cluster.jupyter else (),
        "monitored": hosts if cluster.monitoring else (),
        "mounting": [host for host in hosts if mounts_of(cluster, host)],
    }


def slurm_logins(cluster: Cluster, hosts: Sequence[str]) -> dict[str, Iterable[str]]:
    """The hosts to and from which the slurm user can log in from and to the controller, and those where it cannot."""
    others, allowed = [host for host in hosts if host != cluster.controller], cluster.slurm_ssh.logins
    to, back = allowed != "none", allowed == "both"
    # The logins of another controller are those of a controller.
    controllers = [host for host in others if host in cluster.controllers and to]
    return {
        "to_slurm": others if to else (),
        "from_slurm": others if back else controllers,
        "not_to_slurm": () if to else others,
        "not_from_slurm": () if back else [host for host in others if host not in controllers],
    }
