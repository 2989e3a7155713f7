"""The resources that clean a host which leaves the cluster: no daemon, key or file of the cluster is left there."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.paths import MUNGE_KEY, SLURM_DIRECTORY, SLURM_HOME
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.firewall import MANAGED
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.platform import PLATFORMS
from slurmfab.core.plan.phases.logins import NODE_LOGINS
from slurmfab.core.plan.phases.slurm_conf import JOB_CONTAINER, WATCHED
from slurmfab.core.plan.plan import PHASES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.on_hosts.agent.files.absent import Absent
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.mounts import exports, quotas
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages, RemovedPackages
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.fetched_files import FETCHED_LINK
from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles
from slurmfab.on_hosts.agent.undo.undo_secrets import NoKeptSecrets

NEEDED = ("name", "ssh", "addresses", "controllers", "login", "nodes")
"""The fields of a cluster file that say nothing but which hosts there are."""


NO_FILES = frozenset((NODE_LOGINS, exports.OF, exports.LOADED_OF, quotas.OF))
"""What hosts remember in other ways than as owned files. A host that still serves others keeps its exports."""


PROTECTED = tuple(name for one in PLATFORMS.values() for name in one.protected)


def stopped() -> tuple[Resource, ...]:
    """slurmd stopped and disabled; this comes first, while the node is still drained."""
    return (Service("slurmd", running=False),)


def cleaned(
    *, purge: bool, site_files: tuple[str, ...] = (), taken_back: tuple[Resource, ...] = ()
) -> tuple[Resource, ...]:
    """The cluster's files, keys and daemons removed; users stay, because they own files, and so do logs.

    Packages are removed last: then a maintainer script finds no configuration by which it could reach the cluster.
    `site_files`: names of the site's own files in Slurm's directory. `taken_back`: the removal of what the host has for
    optional keys, from `taken_back`.
    """
    packages_gone = tuple(one for one in taken_back if isinstance(one, FormerPackages))
    return (
        Service("slurmd", running=False),
        Service("munge", running=False),
        Absent(MUNGE_KEY, secret=True),
        *(Absent(path) for path in (*WATCHED, f"{SLURM_DIRECTORY}/{JOB_CONTAINER}", CONFIGLESS_DROP_IN, FETCHED_LINK)),
        *((SiteFiles(SLURM_DIRECTORY, (), site_files),) if site_files else ()),
        Block(f"{SLURM_HOME}/.ssh/authorized_keys", "slurm keys", ""),
        Absent(f"{SLURM_HOME}/.ssh/id_ed25519", secret=True),
        Absent(f"{SLURM_HOME}/.ssh/id_ed25519.pub"),
        Block("/etc/ssh/ssh_known_hosts", "host keys", ""),
        Block("/etc/hosts", "hosts", ""),
        *(one for one in taken_back if one not in packages_gone),
        NoKeptSecrets(),  # after all that the undo store keeps copies of
        *packages_gone,
        *((RemovedPackages(tuple(sorted(purged())), PROTECTED),) if purge else ()),
    )


def open_again(known: Inventory, facts: HostFacts) -> tuple[Resource, ...]:
    """The removal of what keeps users without a job from logging in; empty where the host has no such thing."""
    return tuple(planned(without_options(known, facts), facts.name, guards_logins=True))


def taken_back(known: Inventory, facts: HostFacts) -> tuple[Resource, ...]:
    """The removal of all else that the host has for optional keys: mounts, files, programs, packages.

    It is what a deployment does when these keys go, in the same order. Files of capabilities that have no phase of
    their own for that, such as apt's sources, are taken back last. `known`: the cluster with the host.
    """
    resources = tuple(planned(without_options(known, facts), facts.name, guards_logins=False))
    done = {one.name() for one in resources if isinstance(one, OwnedFiles)} | NO_FILES
    return (*resources, *(OwnedFiles(of, ()) for of in facts.owned if of not in done))


def without_options(known: Inventory, facts: HostFacts) -> PlanInput:
    """The input of a plan for a host with a cluster file that has the same hosts, and no optional key."""
    fields = {name: getattr(known.cluster, name) for name in NEEDED}
    fields["nodes"] = tuple(group.model_copy(update={"mig": None}) for group in known.cluster.nodes)
    return PlanInput(Cluster(**fields), known.lock, {facts.name: facts})


def planned(plan_input: PlanInput, host: str, *, guards_logins: bool) -> Iterator[Resource]:
    """Yield what phases take back from a host, those that a login proves, or all others."""
    for phase in PHASES:
        if phase.taken_back and phase.guards_logins == guards_logins:
            # The files of Slurm's directory are removed with all others there.
            yield from (one for one in phase.resources(plan_input, host) if not isinstance(one, SiteFiles))


def left_on(cluster: Cluster, host: str) -> tuple[str, ...]:
    """The optional keys of the cluster file by which a host may have something, in the words of the cluster file."""
    roles = cluster.roles(host)
    asked = {
        "mounts": bool(mounts_of(cluster, host)),
        "mig": cluster.mig_of(host) is not None,
        "node_logins": cluster.closes(host),
        "user_ssh": cluster.user_ssh != "own",
        "directory": cluster.directory is not None,
        "firewall": cluster.firewall is not None and cluster.firewall.mode == MANAGED,
        "files": any(one.is_on(host, roles) for one in cluster.files.values()),
        "packages": bool(cluster.packages.of_host(host, roles)),
        "modules": cluster.modules is not None,
        "mpi": cluster.mpi is not None,
        "prolog": cluster.prolog is not None,
        "epilog": cluster.epilog is not None,
        "job_environment": cluster.job_environment is not None,
        "health": cluster.health is not None,
        "scratch": cluster.scratch is not None,
        "users": bool(cluster.users) and cluster.unix_users,
    }
    return tuple(key for key, is_asked in asked.items() if is_asked)


def purged() -> set[str]:
    """The packages of a compute node that only Slurm needs, of each kind: a host has those of one."""
    names = (name for one in PLATFORMS.values() for name in (*one.packages("compute"), *one.telling[:1]))
    return {name for name in names if not name.startswith("openssh")}
