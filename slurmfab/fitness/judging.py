"""All that facts have to say before a deployment: which hosts are left out of it, and what is refused altogether."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from slurmfab.facts import HostFacts
from slurmfab.fitness import accounts, gpu_checks, gres, hosts
from slurmfab.slurm import cgroups

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.lock import Lock
    from slurmfab.situation import Situation


def left_out(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str]) -> dict[str, str]:
    """The hosts that cannot be deployed to, or would take something from all others, with the reason for each.

    Args:
        cluster: the cluster file.
        lock: what was discovered before.
        facts: of the hosts that answered.
        allowed: names of dangers that are accepted.
    """
    return {
        **cgroups.losing(cluster, lock, facts, allowed),
        **gres.unfit(cluster, lock, facts),
        **hosts.unfit(cluster, facts),
    }


def refuse_unfit(situation: Situation, among: Collection[str], allowed: Collection[str]) -> None:
    """Refuse what the installed Slurm or the hosts cannot do.

    Args:
        situation: what is wanted and known.
        among: the hosts that the run is about.
        allowed: names of dangers that are accepted.

    Raises:
        InputError: with what is wrong; nothing was changed.
    """
    situation.refuse_other_cluster(allowed)
    situation.refuse_unknown_keys()
    accounts.refuse_unfit(situation)
    gres.refuse_unfit(situation)
    gpu_checks.refuse_unfit(situation)
    situation.refuse_uneven_files(among)
