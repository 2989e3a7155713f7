"""`resume`: compute nodes get jobs again; what keeps them from it is found, told, and repaired where that is safe."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slurmfab import asking, inventory, operations
from slurmfab import deploy as deployment
from slurmfab.agent.node_resume import NodeResume
from slurmfab.agent.node_states import NodeState
from slurmfab.errors import HostError, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.nodes import causes
from slurmfab.nodes.causes import Diagnosis, Evidence, Leftovers
from slurmfab.nodes.draining import PARTS, compute_nodes, given, jobs_by_node, refuse_unknown
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.ssh.fan_out import on_each
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Snapshot

WAIT_SECONDS = 60.0
"""How long a node may take until it is in service: a slurmd that found no controller tries again within half of it."""


@dataclass(frozen=True)
class Stuck:
    """The nodes that are to be cured, and what was found on them.

    Args:
        situation: what a plan for them is made from.
        steps: the comparison of their hosts with the plan.
        seen: how Slurm was.
    """

    situation: Situation
    steps: tuple[Step, ...]
    seen: Snapshot


def resume(cluster: str, hosts: str, anybodys: bool, output: operations.Output) -> int:
    """Bring compute nodes back into service.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist of compute nodes.
        anybodys: whether those that somebody else took out of service are resumed too.
        output: what to tell.

    Returns:
        The exit code: 0 when every named node is in service.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    names = compute_nodes(known, hosts)
    run = operations.start(known, hosts, output, command="resume")
    return operations.perform(run, output, lambda run: resume_nodes(run, names, anybodys))


def resume_nodes(run: Run, names: tuple[str, ...], anybodys: bool) -> None:
    """Find what keeps nodes out of service, repair it, and resume them; what stays out is lost to the run.

    Raises:
        SlurmfabError: the controller does not answer, or the repair cannot begin.
    """
    seen = snapshot.ask_up(run.transport, run.controller, PARTS)
    refuse_unknown(run.controller, seen, names)
    left = [name for name in names if is_left(seen.by_name[name].state, anybodys)]
    # A node that slurmctld has in service is looked at too: it takes minutes until it misses a slurmd.
    run.hosts = tuple(name for name in names if name not in left)
    if run.hosts:
        cure(run, seen, anybodys)
    for name in left:
        leave(run, name, seen)
    run.hosts = names


def is_left(state: NodeState, anybodys: bool) -> bool:
    """Whether a node stays as it is: somebody else took it out of service, or it comes back by itself."""
    return state.is_under_way or (state.is_somebodys and not anybodys)


def leave(run: Run, name: str, seen: Snapshot) -> None:
    """Tell of a node that stays as it is."""
    state = seen.by_name[name].state
    if state.is_under_way:
        run.lose(name, HostError(name, f"{state.words}. Wait until that is over; it comes back by itself."))
        return
    reason = f"{state.words}{given(state)}. That was not slurmfab, so it stays; to resume it all the same: --any."
    run.lose(name, HostError(name, reason))


def cure(run: Run, seen: Snapshot, anybodys: bool) -> None:
    """The nodes of a run, from the diagnosis until they are in service."""
    situation, steps = deployment.survey(run, may_prepare=True)
    stuck = Stuck(situation, tuple(steps), seen)
    diagnoses = diagnose(run, stuck)
    run.progress.end()
    for line in causes.told({one.node: one.words for one in diagnoses if one.words}):
        run.progress.line(line)
    if any(step.differs for step in steps):
        deployment.deploy(run)
    for one in diagnoses:
        if one.grave and one.node not in run.lost:
            run.lose(one.node, HostError(one.node, f"not resumed: {'; '.join(one.grave)}."))
    back = run.well(run.hosts)
    if back:
        bring_back(run, back, anybodys)


def diagnose(run: Run, stuck: Stuck) -> list[Diagnosis]:
    """What is wrong with each node whose host answers."""
    found, jobs = leftovers(run), jobs_by_node(stuck.seen)
    steps: dict[str, list[Step]] = {}
    for step in stuck.steps:
        steps.setdefault(step.host, []).append(step)
    return [
        causes.diagnose(
            Evidence(
                node=stuck.seen.by_name[name],
                pinned=stuck.situation.host(name),
                facts=stuck.situation.facts[name],
                steps=tuple(steps.get(name, ())),
                jobs=jobs.get(name, ()),
                leftovers=found.get(name, Leftovers()),
                roles=stuck.situation.cluster.roles(name),
            )
        )
        for name in run.well(run.hosts)
    ]


def leftovers(run: Run) -> dict[str, Leftovers]:
    """What jobs have left running on each host that answers, and what its health check finds."""

    def ask(host: str) -> Leftovers:
        lines = (*run.transport.call(host, {"op": "job-processes"}), *run.transport.call(host, {"op": "node-health"}))
        said = {name: value for line in lines for name, value in line.items()}
        processes, health = said.get("job_processes", {}), said.get("node_health", {})
        return Leftovers(
            tuple(processes.get("steps", ())), tuple(processes.get("hung", ())), tuple(health.get("causes", ()))
        )

    found = {}
    for host, answer in on_each(run.well(run.hosts), ask):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            found[host] = answer
    return found


def bring_back(run: Run, names: Iterable[str], anybodys: bool) -> None:
    """Resume nodes, and see that they are in service; those that are not are lost to the run."""
    wanted = tuple(names)
    run.progress.begin("resuming", wanted)
    begun = time.monotonic()
    outcomes = asking.request_apply(run, run.controller, [NodeResume(wanted, anybodys, WAIT_SECONDS)], dry_run=False)
    step = Step("resume", run.controller, tuple(outcomes), time.monotonic() - begun)
    after = snapshot.ask_up(run.transport, run.controller, PARTS)
    still = [name for name in wanted if not after.by_name[name].state.is_in_service]
    if step.differs and not step.has_failed:
        run.steps.append(step)
        run.progress.host_done(run.controller, step)
    back = [name for name in wanted if name not in still]
    if back:
        run.progress.line(f"{fold(back)}: in service.")
    for name in still:
        run.lose(name, HostError(name, still_out(name, after)))


def still_out(name: str, seen: Snapshot) -> str:
    """Why a node is not in service although it was resumed, and what to try."""
    state = seen.by_name[name].state
    what = f"still {state.words}{given(state) if state.reason else ''} after {WAIT_SECONDS:.0f} s"
    if not state.answers:
        return f"{what}. See slurmd.log there and slurmctld.log on the controller; is a firewall between them?"
    return f"{what}. See slurmctld.log on the controller for why."
