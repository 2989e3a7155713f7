"""What a host keeps of the cluster that it has left: nothing that daemons, users or other hosts would trust."""

from __future__ import annotations

from slurmfab.agent.absent import Absent
from slurmfab.agent.block import Block
from slurmfab.agent.facts import FETCHING
from slurmfab.agent.fetched_files import PLACE
from slurmfab.agent.kept_secrets import NoKeptSecrets
from slurmfab.agent.packages_gone import PackagesGone
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.phases.munge import KEY
from slurmfab.phases.slurm_conf import CONFIGURATION, JOB_CONTAINER, WATCHED
from slurmfab.situation import SLURM_HOME
from slurmfab.slurm.versions import packages

PLUGINS = "slurm-wlm-basic-plugins"
"""What all of Debian's Slurm packages rest on, and what no role names."""


def stopped() -> tuple[Resource, ...]:
    """slurmd stopped and disabled, while the node is still drained: a node without it does no harm."""
    return (Service("slurmd", running=False),)


def cleaned(*, purge: bool) -> tuple[Resource, ...]:
    """The traces of the cluster gone; users and logs stay, since files carry their numbers and people read them.

    Packages go last: by then nothing is left by which a maintainer script could reach the cluster.

    Args:
        purge: whether to remove packages.
    """
    return (
        Service("slurmd", running=False),
        Service("munge", running=False),
        Absent(KEY, secret=True),
        *(Absent(path) for path in (*WATCHED, f"{CONFIGURATION}/{JOB_CONTAINER}", FETCHING, PLACE)),
        Block(f"{SLURM_HOME}/.ssh/authorized_keys", "slurm keys", ""),
        Absent(f"{SLURM_HOME}/.ssh/id_ed25519", secret=True),
        Absent(f"{SLURM_HOME}/.ssh/id_ed25519.pub"),
        Block("/etc/ssh/ssh_known_hosts", "host keys", ""),
        Block("/etc/hosts", "hosts", ""),
        NoKeptSecrets(),
        *((PackagesGone(tuple(sorted(purged()))),) if purge else ()),
    )


def purged() -> set[str]:
    """The packages of a compute node that nothing but Slurm needs."""
    return {name for name in packages("compute") if not name.startswith("openssh")} | {PLUGINS}
