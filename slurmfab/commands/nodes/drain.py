"""`fab drain`: compute nodes get no new jobs; running jobs continue. The reason in Slurm has user and time."""

from __future__ import annotations

import time
from collections.abc import Iterable

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import requests, session
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.job_waiting import format_jobs, jobs_on, nodes_and_jobs, wait_until_empty
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain
from slurmfab.on_hosts.agent.nodes.states import NodeState, parse_reason

LONGEST_REASON = 200


def drain(cluster: str, hosts: str, reason: str, minutes: int | None, output: session.Output) -> int:
    """Drain compute nodes, and wait until their jobs have ended if the user wants that.

    `minutes`: 0 for no limit, `None` for no waiting. Returns 1 if jobs still run after that time. Raises InputError for
    other hosts, or a reason that cannot be stored; HostError if the controller does not answer.
    """
    known = loading.load_named(cluster)
    names, text = compute_nodes(known, hosts), checked_reason(reason)
    run = session.start(known, hosts, output, RunOptions("drain"))

    def work(run: Run) -> None:
        drain_nodes(run, names, text)
        if minutes is not None:
            wait_until_empty(run, names, minutes * 60.0)

    return session.perform(run, output, work)


def compute_nodes(known: Inventory, hosts: str) -> tuple[str, ...]:
    """The compute nodes that the user named; InputError if no host is named, or one is no compute node."""
    if not hosts:
        raise InputError("Name the compute nodes, for example n1,n[3-5].")
    names = session.select_hosts(known.cluster, hosts, known.path)
    others = [name for name in names if name not in known.cluster.compute_nodes]
    if others:
        raise InputError(f"{fold(others)}: not a compute node (compute nodes: {fold(known.cluster.compute_nodes)}).")
    return tuple(name for name in expand(hosts) if name in names)


def checked_reason(reason: str) -> str:
    """The reason as Slurm stores it, stripped; InputError if it is empty, too long, or not one printable line."""
    text = reason.strip()
    if not text:
        raise InputError('Add a reason, which Slurm shows for the nodes: --reason "new disks".')
    if len(text) > LONGEST_REASON or not text.isprintable():
        raise InputError(f"--reason: it must be one line of at most {LONGEST_REASON} characters.")
    return text


def drain_nodes(run: Run, names: tuple[str, ...], text: str) -> Snapshot:
    """Drain nodes; print which nodes keep another reason, and which jobs still run there.

    `run`: the run; a step of the controller is added to it. Returns Slurm before the change. Raises HostError if the
    controller does not answer, or slurmctld does not know one of the nodes.
    """
    before = nodes_and_jobs(run)
    refuse_unknown(run.controller, before, names)
    for name in names:
        state = before.by_name[name].state
        if state.is_set_by_person or (state.is_drained and not state.is_ours):
            run.progress.line(f"{name}: {state.description} already{format_reason(state)}. This is not changed.")
    begun = time.monotonic()
    wanted = NodeDrain(names, text, stamp())
    outcomes = requests.request_apply(run, run.controller, [wanted], dry_run=False)
    step = Step("drain", run.controller, tuple(outcomes), time.monotonic() - begun)
    if step.differs:
        run.record_steps(step)
    run.progress.host_done(run.controller, step)
    jobs = jobs_on(before, names)
    if jobs:
        run.progress.line(f"Still running there: {format_jobs(jobs)}. These jobs continue.")
    return before


def refuse_unknown(controller: str, current: Snapshot, names: Iterable[str]) -> None:
    """Stop by HostError if slurmctld does not know one of the nodes."""
    unknown = [name for name in names if name not in current.by_name]
    if unknown:
        reason = f"its slurmctld does not know {fold(unknown)}. If the cluster file has changed, run {FAB} deploy."
        raise HostError(controller, reason)


def format_reason(state: NodeState) -> str:
    """The reason of a node with its author and time, to be put after the node's state."""
    if not state.reason:
        return ", without a reason"
    when = f", {state.since.replace('T', ' ')}" if state.since else ""
    return f" (“{parse_reason(state.reason).text}”, {state.by or 'unknown user'}{when})"
