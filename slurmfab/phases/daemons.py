"""slurmctld and slurmd: enabled, running, and not with older files than the disk holds.

The order depends on what changes. From 24.11, `scontrol reconfigure` brings nodes in and out. Before that the set of
nodes may only change while slurmctld is stopped: stop it, replace the files, restart every slurmd, start it again
(Slurm's FAQ on adding nodes). Running jobs survive either way; their steps do not depend on the daemons.
"""

from __future__ import annotations

from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.agent.slurm_nodes import SlurmNodes
from slurmfab.phases.slurm_conf import CONFIGURATION, WATCHED
from slurmfab.situation import Situation
from slurmfab.slurm_versions import adds_nodes_by_reconfigure

RECONFIGURE = ("scontrol", "reconfigure")
READY_SECONDS = 90
"""How long nodes may take to register: a slurmd that found no controller tries again within half a minute."""


def must_stop(situation: Situation) -> bool:
    """Whether slurmctld has to be down while the files change."""
    return (
        not adds_nodes_by_reconfigure(situation.slurm_version)
        and situation.controller_facts.services.get("slurmctld") == "active"
        and situation.changes_nodes
    )


def stop(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld stopped, where the set of nodes changes and the installed Slurm cannot take that in its stride."""
    stopping = host in situation.cluster.controllers and must_stop(situation)
    return (Service("slurmctld", running=False),) if stopping else ()


def slurmctld(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld with the new files, unless it has to wait for every slurmd."""
    return () if must_stop(situation) else controller_service(situation, host)


def slurmd(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd with the new files; after a reconfigure it has them already."""
    return (Service("slurmd", watches=WATCHED),) if situation.is_compute_node(host) else ()


def start(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld after every slurmd, where it had to be stopped."""
    return controller_service(situation, host) if must_stop(situation) else ()


def controller_service(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld enabled and running with the files as they are."""
    if host not in situation.cluster.controllers:
        return ()
    reload = RECONFIGURE if adds_nodes_by_reconfigure(situation.slurm_version) else ()
    watches = (f"{CONFIGURATION}/slurm.conf", f"{CONFIGURATION}/gres.conf")
    return (Service("slurmctld", watches=watches, reload=reload),)


def nodes(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Every compute node that answers is ready for jobs, as slurmctld sees it."""
    if host != situation.cluster.controller:
        return ()
    answering = tuple(name for name in situation.compute_nodes if name in situation.facts)
    return (SlurmNodes(answering, READY_SECONDS),) if answering else ()
