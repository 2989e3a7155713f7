"""slurmctld and slurmd: enabled, running, and with the present files loaded.

The order depends on the change. From 24.11, `scontrol reconfigure` adds and removes nodes. Before that, the set of
nodes may only change while slurmctld is stopped: stop it, replace the files, restart every slurmd, start it again
(Slurm's FAQ on adding nodes). The same order applies to settings that a reconfigure does not change, such as ports. If
the run is interrupted meanwhile, a guard on the host starts slurmctld with the files that are there. Running jobs
continue in both cases; their steps do not depend on the daemons.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.slurm.site_files import READERS, SLURMCTLD, SLURMD
from slurmfab.cluster.slurm.versions import adds_nodes_by_reconfigure
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.plan.phases import configless, rest, restarts, site_files
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.phases.slurm_conf import JOB_CONTAINER, is_another, read_by_slurmd, watched
from slurmfab.core.plan.phases.users import moved
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.client.commands import PRIMARY_ANSWERS, RECONFIGURE, SHOW_SLURMD
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.database.registration import Registration
from slurmfab.on_hosts.agent.nodes.drain import NewNodeDrain
from slurmfab.on_hosts.agent.nodes.lost_jobs import LostJobs
from slurmfab.on_hosts.agent.nodes.registered import SlurmNodes
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause

AWAITED = ("true",)
"""The `reload` of a slurmd that slurmctld has told to reconfigure: does nothing, because slurmd reloads by itself.

If slurmd is restarted during the handover to its new process, it hangs until systemd kills it.
"""

SLURMD_ALONE = {"cgroup.conf", JOB_CONTAINER, *(name for name, daemons in READERS.items() if daemons == (SLURMD,))}
"""The files that slurmd reads and slurmctld does not."""

READY_SECONDS = 110
"""Seconds that nodes get to register: slurmctld asks silent nodes every 100 s (a third of SlurmdTimeout), and a slurmd
that found no controller tries again within half a minute."""


@once
def must_stop(plan_input: PlanInput) -> bool:
    """Whether slurmctld stops while files are replaced; with changed UIDs, phase `users` has stopped it."""
    is_running = any(
        runs_slurmctld(plan_input, name) and not moved(plan_input, name) for name in plan_input.cluster.controllers
    )
    return is_running and (plan_input.moves_state or is_another(plan_input) or needs_stop(plan_input))


def needs_stop(plan_input: PlanInput) -> bool:
    """Whether neither a reconfigure nor a plain restart of slurmctld is enough for the new files."""
    if not adds_nodes_by_reconfigure(plan_input.oldest_slurm):
        return plan_input.changes_nodes
    version = plan_input.oldest_slurm
    return any(
        need(setting, version) in (Requirement.RESTART, Requirement.NO_JOBS) for setting in plan_input.other_settings
    )


def runs_slurmctld(plan_input: PlanInput, host: str) -> bool:
    """Whether the host answered and slurmctld runs on it."""
    return host in plan_input.facts and plan_input.facts[host].services.get("slurmctld") == "active"


def renewal(plan_input: PlanInput, hosts: Iterable[str]) -> str:
    """A sentence on daemons of these hosts that restart or reconfigure for changed files; empty for none."""
    files = {difference.file for difference in plan_input.differences}
    if not files:
        return ""
    # slurmctld sends the files to all configless nodes, also to those outside the run.
    fetching = [host for host in plan_input.compute_nodes if plan_input.cluster.fetches(host)]
    there = [host for host in hosts if plan_input.is_compute_node(host)] or fetching
    nodes = f"slurmd on {fold(there)}" if there else "no slurmd"
    controllers = f"slurmctld on {fold(plan_input.cluster.controllers)}"
    if not plan_input.whole_files["slurm.conf"]:  # a rollback to before there was one
        return f"{controllers} and {nodes} stop, and do not start again."
    if starts_last(plan_input):
        return f"{controllers} stops, {nodes} restarts, and slurmctld starts again."
    if must_stop(plan_input):
        return f"{controllers} stops and starts with the new files, and {nodes} restarts and fetches them."
    if files <= SLURMD_ALONE and not plan_input.cluster.configless:
        return f"{nodes} restarts."
    if adds_nodes_by_reconfigure(plan_input.oldest_slurm):
        return f"{' '.join(RECONFIGURE)} renews {controllers} and {nodes}."
    return f"{controllers} and {nodes} restart."


def stop(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmctld stopped on all controllers, with a guard, if `must_stop`; for good on a host that is none any more.

    Otherwise the backup would take over with the old files.
    """
    if host not in plan_input.cluster.controllers:
        return (Service("slurmctld", running=False),) if runs_slurmctld(plan_input, host) else ()
    if not must_stop(plan_input):
        return ()
    node = host if plan_input.is_compute_node(host) else ""
    folders = site_files.written_in(plan_input, host)
    return (
        SlurmctldPause(files=plan_input.files_of(host), node=node, directory=folders[0])
        if folders
        else SlurmctldPause(),
    )


def slurmctld(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmctld with the new files, unless it starts after every slurmd."""
    return () if starts_last(plan_input) else controller_service(plan_input, host)


def slurmd(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmd with the new files, except on new nodes; after a reconfigure it loads them by itself.

    A controller or login host that is no compute node has none that runs: by slurmd, whoever has the munge key is root.
    """
    if "compute" not in plan_input.cluster.roles(host):
        is_there = host in plan_input.facts and "slurmd" in plan_input.facts[host].services
        return (Service("slurmd", running=False),) if is_there else ()
    is_member = plan_input.is_compute_node(host) and not plan_input.is_on_trial(host)
    return slurmd_service(plan_input, host) if is_member else ()


def slurmd_service(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmd with local files, or with the files that it fetches from slurmctld."""
    carried = is_reconfigured(plan_input) and not plan_input.is_on_trial(host)
    reload = AWAITED if carried else ()
    files = (*watched(plan_input, host, read_by_slurmd(plan_input)), *restarts.watched(plan_input, host))
    local = Service("slurmd", watches=files, reload=reload, answers=SHOW_SLURMD, stops_early=True)
    if plan_input.cluster.fetches(host):
        return configless.slurmd(plan_input, host, local, carried=carried)
    return (local,)


@once
def is_reconfigured(plan_input: PlanInput) -> bool:
    """Whether slurmctld has sent a reconfigure to every slurmd before phase `slurmd`."""
    is_changed = any(
        plan_input.cluster.configless or difference.file not in SLURMD_ALONE for difference in plan_input.differences
    )
    runs = runs_slurmctld(plan_input, plan_input.cluster.controller)
    return is_changed and runs and adds_nodes_by_reconfigure(plan_input.oldest_slurm) and not must_stop(plan_input)


def gate(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """New nodes, drained before they register, so that slurmfab's test job is the first job on them."""
    if host != plan_input.cluster.controller:
        return ()
    nodes = tuple(filter(plan_input.is_on_trial, plan_input.compute_nodes))
    return (NewNodeDrain(nodes, "new, no job has run there yet", plan_input.stamp),) if nodes else ()


def new_slurmd(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmd on new nodes, after slurmctld knows and has drained them."""
    return slurmd_service(plan_input, host) if plan_input.is_on_trial(host) else ()


def start(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmctld started after every slurmd, if it was stopped for the new files."""
    return controller_service(plan_input, host) if starts_last(plan_input) else ()


def starts_last(plan_input: PlanInput) -> bool:
    """Whether slurmctld starts after every slurmd; not in a configless cluster, where slurmd fetches files from it."""
    return must_stop(plan_input) and not plan_input.cluster.configless


def controller_service(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmctld enabled and running with the present files; a backup controller is restarted, not reconfigured."""
    if host not in plan_input.cluster.controllers:
        return ()
    is_primary = host == plan_input.cluster.controller
    reload = RECONFIGURE if is_primary and adds_nodes_by_reconfigure(plan_input.oldest_slurm) else ()
    # A configless slurmctld serves the files from memory, as they were when it read its own.
    served = site_files.served_paths(plan_input, read_by_slurmd(plan_input)) if plan_input.cluster.configless else ()
    own = served or (f"{SLURM_DIRECTORY}/slurm.conf", f"{SLURM_DIRECTORY}/gres.conf")
    both = tuple(dict.fromkeys((*own, *site_files.read_by(plan_input, SLURMCTLD))))
    watches = (*watched(plan_input, host, both), *rest.watched(plan_input, host))
    service = Service("slurmctld", watches=watches, reload=reload, answers=PRIMARY_ANSWERS if is_primary else ())
    is_recorded = is_primary and plan_input.cluster.database
    return (service, Registration(plan_input.cluster.name)) if is_recorded else (service,)


def nodes(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Every compute node that answered ready for jobs, according to slurmctld; new nodes are tested later."""
    if host != plan_input.cluster.controller:
        return ()
    answering = tuple(
        name for name in plan_input.compute_nodes if name in plan_input.facts and not plan_input.is_on_trial(name)
    )
    has_health = plan_input.cluster.health is not None
    return (SlurmNodes(answering, READY_SECONDS, has_health),) if answering else ()


def lost_jobs(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """No job is called running that has no process on its node, as the nodes told before the first change."""
    if host != plan_input.cluster.controller or host not in plan_input.facts:
        return ()
    own = plan_input.facts[host].clock_offset
    looked = tuple(
        (name, int(there.slurm_use.looked + own - there.clock_offset), there.slurm_use.jobs)
        for name in plan_input.compute_nodes
        if (there := plan_input.facts.get(name)) and there.slurm_use.looked
    )
    flags = {flag.strip().lower() for flag in plan_input.setting_before("PrologFlags").split(",")}
    return (LostJobs(looked, bool(flags & {"contain", "x11"})),) if looked else ()
