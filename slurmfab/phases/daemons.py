"""slurmctld and slurmd: enabled, running, and not with older files than the disk holds.

The order depends on what changes. From 24.11, `scontrol reconfigure` brings nodes in and out. Before that the set of
nodes may only change while slurmctld is stopped: stop it, replace the files, restart every slurmd, start it again
(Slurm's FAQ on adding nodes). Running jobs survive either way; their steps do not depend on the daemons.
"""

from __future__ import annotations

from slurmfab.agent.node_gate import NodeGate
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.agent.slurm_nodes import SlurmNodes
from slurmfab.phases.slurm_conf import CONFIGURATION, WATCHED
from slurmfab.situation import Situation
from slurmfab.slurm.versions import adds_nodes_by_reconfigure

RECONFIGURE = ("scontrol", "reconfigure")
READY_SECONDS = 90
"""How long nodes may take to register: a slurmd that found no controller tries again within half a minute."""


def must_stop(situation: Situation) -> bool:
    """Whether slurmctld has to be down while the files change."""
    takes_nodes = adds_nodes_by_reconfigure(situation.slurm_version) or not situation.changes_nodes
    is_running = any(runs_slurmctld(situation, name) for name in situation.cluster.controllers)
    return is_running and (situation.moves_state or not takes_nodes)


def runs_slurmctld(situation: Situation, host: str) -> bool:
    """Whether slurmctld runs on a host that has answered."""
    return host in situation.facts and situation.facts[host].services.get("slurmctld") == "active"


def stop(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld stopped, where the set of nodes changes and the installed Slurm cannot take that in its stride.

    So is it where its state moves. All controllers stop, or the backup would take over with the old files; and so does
    a host that is no controller any more.
    """
    is_controller = host in situation.cluster.controllers
    stopping = must_stop(situation) if is_controller else runs_slurmctld(situation, host)
    return (Service("slurmctld", running=False),) if stopping else ()


def slurmctld(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld with the new files, unless it has to wait for every slurmd."""
    return () if must_stop(situation) else controller_service(situation, host)


def slurmd(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd with the new files; after a reconfigure it has them already."""
    is_member = situation.is_compute_node(host) and not situation.is_on_trial(host)
    return (Service("slurmd", watches=WATCHED),) if is_member else ()


def gate(situation: Situation, host: str) -> tuple[Resource, ...]:
    """New nodes drained before they register, so that no user's job is the first to run there."""
    nodes = tuple(filter(situation.is_on_trial, situation.compute_nodes))
    if host != situation.cluster.controller or not nodes:
        return ()
    return (NodeGate(nodes, "new, no job has run there yet", situation.stamp),)


def new_slurmd(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd on new nodes, once slurmctld knows and keeps them."""
    return (Service("slurmd", watches=WATCHED),) if situation.is_on_trial(host) else ()


def start(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld after every slurmd, where it had to be stopped."""
    return controller_service(situation, host) if must_stop(situation) else ()


def controller_service(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld enabled and running with the files as they are; a backup, which only waits, is simply restarted."""
    if host not in situation.cluster.controllers:
        return ()
    can_reload = adds_nodes_by_reconfigure(situation.slurm_version) and host == situation.cluster.controller
    reload = RECONFIGURE if can_reload else ()
    watches = (f"{CONFIGURATION}/slurm.conf", f"{CONFIGURATION}/gres.conf")
    return (Service("slurmctld", watches=watches, reload=reload),)


def nodes(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Every compute node that answers is ready for jobs, as slurmctld sees it; new ones are tried after all this."""
    if host != situation.cluster.controller:
        return ()
    answering = tuple(
        name for name in situation.compute_nodes if name in situation.facts and not situation.is_on_trial(name)
    )
    return (SlurmNodes(answering, READY_SECONDS),) if answering else ()
