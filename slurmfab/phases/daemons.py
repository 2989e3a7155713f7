"""slurmctld and slurmd: enabled, running, and not with older files than the disk holds.

The order depends on what changes. From 24.11, `scontrol reconfigure` brings nodes in and out. Before that the set of
nodes may only change while slurmctld is stopped: stop it, replace the files, restart every slurmd, start it again
(Slurm's FAQ on adding nodes). The same way is taken for what a reconfigure does not change, such as ports: a run that
is cut off in between leaves slurmctld stopped, and the next one starts it, so nobody has to remember how. Running jobs
survive either way; their steps do not depend on the daemons.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.agent.node_gate import NodeGate
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.agent.slurm_nodes import SlurmNodes
from slurmfab.hostlist import fold
from slurmfab.phases import configless
from slurmfab.phases.once import once
from slurmfab.phases.slurm_conf import CONFIGURATION, JOB_CONTAINER, is_another, read_by_slurmd
from slurmfab.phases.users import moved
from slurmfab.promises.needs import Need, need
from slurmfab.situation import Situation
from slurmfab.slurm.versions import adds_nodes_by_reconfigure

RECONFIGURE = ("scontrol", "reconfigure")
PING = ("sh", "-c", "scontrol ping | grep -q '^Slurmctld(primary) .* is UP'")
"""Succeeds when the primary slurmctld answers; scontrol itself does when any of several controllers does."""

SHOW_SLURMD = ("scontrol", "show", "slurmd")
"""Succeeds when the host's own slurmd answers (scontrol(1))."""

AWAITED = ("true",)
"""How slurmd takes the new files in when slurmctld has passed the word on: by itself, so there is only to wait.

A slurmd that is restarted in the very moment in which it hands over to its new self is stuck until systemd kills it.
"""

SLURMD_ALONE = {"cgroup.conf", JOB_CONTAINER}
"""The files that slurmctld does not read."""

READY_SECONDS = 90
"""How long nodes may take to register: a slurmd that found no controller tries again within half a minute."""


@once
def must_stop(situation: Situation) -> bool:
    """Whether slurmctld has to be down while the files change; where users are moved, it is down by then."""
    is_running = any(
        runs_slurmctld(situation, name) and not moved(situation, name) for name in situation.cluster.controllers
    )
    return is_running and (situation.moves_state or is_another(situation) or needs_stop(situation))


def needs_stop(situation: Situation) -> bool:
    """Whether slurmctld cannot take the new files in its stride: neither by a reconfigure, nor by a plain restart."""
    if not adds_nodes_by_reconfigure(situation.slurm_version):
        return situation.changes_nodes
    version = situation.slurm_version
    return any(need(setting, version) in (Need.RESTART, Need.NO_JOBS) for setting in situation.other_settings)


def runs_slurmctld(situation: Situation, host: str) -> bool:
    """Whether slurmctld runs on a host that has answered."""
    return host in situation.facts and situation.facts[host].services.get("slurmctld") == "active"


def renewal(situation: Situation, hosts: Iterable[str]) -> str:
    """Which daemons are restarted or reconfigured for what changes in Slurm's files, and where; empty for none.

    Args:
        situation: what is wanted and known.
        hosts: those that the run is about and that answer.
    """
    files = {difference.file for difference in situation.differences}
    if not files:
        return ""
    # slurmctld carries them to nodes that fetch, whether or not the run is about any of these.
    fetching = [host for host in situation.compute_nodes if situation.cluster.fetches(host)]
    there = [host for host in hosts if situation.is_compute_node(host)] or fetching
    nodes = f"slurmd on {fold(there)}" if there else "no slurmd"
    controllers = f"slurmctld on {fold(situation.cluster.controllers)}"
    if starts_last(situation):
        return f"{controllers} stops, {nodes} restarts, and slurmctld starts again."
    if must_stop(situation):
        return f"{controllers} stops and starts with the new files, and {nodes} restarts and fetches them."
    if files <= SLURMD_ALONE and not situation.cluster.configless:
        return f"{nodes} restarts."
    if adds_nodes_by_reconfigure(situation.slurm_version):
        return f"scontrol reconfigure renews {controllers} and {nodes}."
    return f"{controllers} and {nodes} restart."


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
    return () if starts_last(situation) else controller_service(situation, host)


def slurmd(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd with the new files; after a reconfigure it has them already, or is about to."""
    is_member = situation.is_compute_node(host) and not situation.is_on_trial(host)
    return slurmd_service(situation, host) if is_member else ()


def slurmd_service(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd with files of its own, or with those that it fetches from slurmctld."""
    carried = is_reconfigured(situation) and not situation.is_on_trial(host)
    reload = AWAITED if carried else ()
    local = Service("slurmd", watches=read_by_slurmd(situation), reload=reload, answers=SHOW_SLURMD)
    if situation.cluster.fetches(host):
        return configless.slurmd(situation, host, local, carried=carried)
    return (local,)


@once
def is_reconfigured(situation: Situation) -> bool:
    """Whether slurmctld has told every slurmd to take the new files in, when it is slurmd's turn."""
    told = any(
        situation.cluster.configless or difference.file not in SLURMD_ALONE for difference in situation.differences
    )
    runs = runs_slurmctld(situation, situation.cluster.controller)
    return told and runs and adds_nodes_by_reconfigure(situation.slurm_version) and not must_stop(situation)


def gate(situation: Situation, host: str) -> tuple[Resource, ...]:
    """New nodes drained before they register, so that no user's job is the first to run there."""
    if host != situation.cluster.controller:
        return ()
    nodes = tuple(filter(situation.is_on_trial, situation.compute_nodes))
    return (NodeGate(nodes, "new, no job has run there yet", situation.stamp),) if nodes else ()


def new_slurmd(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd on new nodes, once slurmctld knows and keeps them."""
    return slurmd_service(situation, host) if situation.is_on_trial(host) else ()


def start(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld after every slurmd, where it had to be stopped."""
    return controller_service(situation, host) if starts_last(situation) else ()


def starts_last(situation: Situation) -> bool:
    """Whether slurmctld has been stopped and starts after every slurmd; not where these ask it for their files."""
    return must_stop(situation) and not situation.cluster.configless


def controller_service(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmctld enabled and running with the files as they are; a backup, which only waits, is simply restarted."""
    if host not in situation.cluster.controllers:
        return ()
    is_primary = host == situation.cluster.controller
    reload = RECONFIGURE if is_primary and adds_nodes_by_reconfigure(situation.slurm_version) else ()
    # Where it serves files, it has those in memory that were there when it read its own.
    served = read_by_slurmd(situation) if situation.cluster.configless else ()
    watches = served or (f"{CONFIGURATION}/slurm.conf", f"{CONFIGURATION}/gres.conf")
    return (Service("slurmctld", watches=watches, reload=reload, answers=PING if is_primary else ()),)


def nodes(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Every compute node that answers is ready for jobs, as slurmctld sees it; new ones are tried after all this."""
    if host != situation.cluster.controller:
        return ()
    answering = tuple(
        name for name in situation.compute_nodes if name in situation.facts and not situation.is_on_trial(name)
    )
    return (SlurmNodes(answering, READY_SECONDS),) if answering else ()
