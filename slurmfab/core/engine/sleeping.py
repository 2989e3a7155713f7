"""Nodes that do not answer because Slurm has powered them down: not failures, and named for what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from slurmfab.base.errors import Asleep, HostError
from slurmfab.base.program_name import FAB
from slurmfab.on_hosts.agent.nodes.awake import SLEEPS, NodesAwake

if TYPE_CHECKING:
    from slurmfab.cluster.facts import HostFacts
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.core.engine.report import Step
    from slurmfab.core.engine.run import Run
    from slurmfab.on_hosts.agent.nodes.states import NodeState

USUAL_SECONDS = 1020
"""Seconds for which to wait for nodes that are woken, where the cluster file no longer says how long that takes."""

Applies = Callable[["Run", str, str, Iterable[NodesAwake]], "Step"]


def find(run: Run, facts: Mapping[str, HostFacts], silent: Mapping[str, HostError]) -> dict[str, Asleep]:
    """Those of the silent hosts that Slurm has powered down, or is powering down or up.

    Args:
        run: the run, whose controller is asked if its slurm.conf lets nodes sleep.
        silent: hosts that did not answer, each with its error.
    """
    controller = facts.get(run.controller)
    if controller is None or "suspendprogram" not in controller.slurm_conf.lower():
        return {}
    return among(run, silent)


def among(run: Run, silent: Iterable[str]) -> dict[str, Asleep]:
    """The silent hosts of which Slurm, by the controller, says that they are powered down, or on the way."""
    from slurmfab.core.status import snapshot  # few runs have a sleeping node

    try:
        nodes = snapshot.ask(run.transport, run.controller, ("nodes",)).by_name
    except HostError:
        return {}
    return {
        host: Asleep(host, reason_of(nodes[host].state, run.inventory.cluster, host))
        for host in silent
        if host in nodes and is_asleep(nodes[host].state)
    }


def is_asleep(state: NodeState) -> bool:
    """Whether Slurm has switched a node off, or is switching it off or on, and it has not failed to come back."""
    return bool(state.flags & SLEEPS) and "DOWN" not in state.flags


def reason_of(state: NodeState, cluster: Cluster, host: str) -> str:
    """The text about a sleeping node, with what to try."""
    words = {"POWERING_UP": "Slurm is switching it on", "POWERING_DOWN": "Slurm is switching it off"}
    text = next((words[flag] for flag in words if flag in state.flags), "Slurm has switched it off while it is idle")
    advice = f"{FAB} deploy --wake" if may_sleep(cluster, host) else f"{FAB} deploy"
    return f"it is asleep: {text}. It wakes up for the next job; to wake it and deploy to it now: {advice}."


def may_sleep(cluster: Cluster, host: str) -> bool:
    """Whether the cluster file lets a node sleep; a SuspendProgram of the site's own decides that itself."""
    if any(key.lower() == "suspendprogram" and value for key, value in cluster.slurm_conf.items()):
        return True
    return cluster.power is not None and host in cluster.power.nodes and host not in cluster.power.always_on


def wake(run: Run, asleep: Iterable[str], apply: Applies) -> tuple[str, ...]:
    """Wake the nodes that the run wants to wake, and those that the cluster file no longer lets sleep.

    Without that, a deployment that takes `power` away would leave them off for ever. `run`: the run; gains a step of
    the controller. Returns the nodes that are to be asked again; a node that did not wake up shows that by its silence.
    """
    cluster = run.inventory.cluster
    nodes = tuple(host for host in asleep if run.options.wakes or not may_sleep(cluster, host))
    if not nodes:
        return ()
    run.progress.begin("waking", nodes)
    seconds = cluster.power.resume_timeout + cluster.power.suspend_timeout if cluster.power else USUAL_SECONDS
    step = apply(run, "wake", run.controller, [NodesAwake(nodes, float(seconds))])
    run.record_steps(step)
    run.progress.host_done(run.controller, step)
    return nodes
