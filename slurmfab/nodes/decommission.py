"""The resources that clean a host which leaves the cluster: no daemon, key or file of the cluster is left there."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.agent.files.absent import Absent
from slurmfab.agent.files.block import Block
from slurmfab.agent.packages.removed_packages import RemovedPackages
from slurmfab.agent.services.service import Service
from slurmfab.agent.slurm.fetched_files import FETCHED_LINK
from slurmfab.agent.slurm.site_files import SiteFiles
from slurmfab.agent.undo.undo_secrets import NoKeptSecrets
from slurmfab.paths import MUNGE_KEY, SLURM_DIRECTORY, SLURM_HOME
from slurmfab.plan.phases.slurm_conf import JOB_CONTAINER, WATCHED
from slurmfab.slurm.versions import packages

PLUGINS = "slurm-wlm-basic-plugins"
"""A dependency of all of Debian's Slurm packages; no role lists it."""


def stopped() -> tuple[Resource, ...]:
    """slurmd stopped and disabled; this comes first, while the node is still drained."""
    return (Service("slurmd", running=False),)


def cleaned(*, purge: bool, site_files: tuple[str, ...] = ()) -> tuple[Resource, ...]:
    """The cluster's files, keys and daemons removed; users stay, because they own files, and so do logs.

    Packages are removed last: then a maintainer script finds no configuration by which it could reach the cluster.

    Args:
        purge: whether to remove packages.
        site_files: names of the site's own files in Slurm's directory.
    """
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
        NoKeptSecrets(),
        *((RemovedPackages(tuple(sorted(purged()))),) if purge else ()),
    )


def purged() -> set[str]:
    """The packages of a compute node that only Slurm needs."""
    return {name for name in packages("compute") if not name.startswith("openssh")} | {PLUGINS}
