"""`drain`: compute nodes get no new jobs, for a reason that says who asked and when; what runs there goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from slurmfab import asking, inventory, operations
from slurmfab.agent.node_drain import NodeDrain
from slurmfab.agent.node_states import NodeState, said
from slurmfab.errors import HostError, InputError
from slurmfab.hostlist import expand, fold
from slurmfab.inventory import Inventory
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.signature import stamp
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Job, Snapshot

PARTS = ("nodes", "jobs")
LONGEST_REASON = 200
POLL_SECONDS = 2.0
SILENCE_SECONDS = 300.0
"""How long a controller may say nothing while jobs are waited for, before the waiting is given up."""


def drain(cluster: str, hosts: str, reason: str, minutes: int | None, output: operations.Output) -> int:
    """Drain compute nodes, and wait for their jobs if that was asked for.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist of compute nodes.
        reason: why.
        minutes: how long to wait until no job runs there; 0 for as long as it takes, `None` for no waiting.
        output: what to tell.

    Returns:
        The exit code; 1 when jobs still run after that time.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    names, text = compute_nodes(known, hosts), checked_reason(reason)
    run = operations.start(known, hosts, output, command="drain")

    def work(run: Run) -> None:
        drain_nodes(run, names, text)
        if minutes is not None:
            wait_until_empty(run, names, minutes * 60.0)

    return operations.perform(run, output, work)


def compute_nodes(known: Inventory, hosts: str) -> tuple[str, ...]:
    """The compute nodes that the user named.

    Raises:
        InputError: there are none, or one of them is no compute node.
    """
    if not hosts:
        raise InputError("Name the compute nodes, as in n1,n[3-5].")
    names = operations.chosen(known.cluster, hosts, known.path)
    others = [name for name in names if name not in known.cluster.compute_nodes]
    if others:
        raise InputError(f"{fold(others)}: no compute node (compute nodes: {fold(known.cluster.compute_nodes)}).")
    return tuple(name for name in expand(hosts) if name in names)


def checked_reason(reason: str) -> str:
    """The reason as Slurm can keep it, in one line.

    Raises:
        InputError: there is none, or it is too long or not printable.
    """
    text = reason.strip()
    if not text:
        raise InputError('Say why, for those who find the nodes drained: --reason "new disks".')
    if len(text) > LONGEST_REASON or not text.isprintable():
        raise InputError(f"--reason: it must be one line of at most {LONGEST_REASON} characters.")
    return text


def drain_nodes(run: Run, names: tuple[str, ...], text: str) -> Snapshot:
    """Drain nodes, and tell which keep another reason and which jobs go on there.

    Args:
        run: the run; it gains a step of the controller's.
        names: compute nodes.
        text: why, without who and when.

    Returns:
        How Slurm was before.

    Raises:
        HostError: the controller does not answer, or knows one of the nodes not.
    """
    before = snapshot.ask_up(run.transport, run.controller, PARTS)
    refuse_unknown(run.controller, before, names)
    for name in names:
        state = before.by_name[name].state
        if is_kept(state):
            run.progress.line(f"{name}: {state.words} already{given(state)}. That is left as it is.")
    begun = time.monotonic()
    wanted = NodeDrain(names, text, stamp())
    outcomes = asking.request_apply(run, run.controller, [wanted], dry_run=False)
    step = Step("drain", run.controller, tuple(outcomes), time.monotonic() - begun)
    if step.differs:
        run.steps.append(step)
    run.progress.host_done(run.controller, step)
    tell_jobs(run, before, names)
    return before


def refuse_unknown(controller: str, seen: Snapshot, names: Iterable[str]) -> None:
    """Stop at nodes that slurmctld does not know.

    Raises:
        HostError: there are some.
    """
    unknown = [name for name in names if name not in seen.by_name]
    if unknown:
        words = f"its slurmctld does not know {fold(unknown)}. Has the cluster file changed since? fab deploy."
        raise HostError(controller, words)


def is_kept(state: NodeState) -> bool:
    """Whether a node is out of service by somebody's or Slurm's own doing, and keeps the reason that it has."""
    return state.is_somebodys or (state.is_drained and not state.is_ours)


def given(state: NodeState) -> str:
    """Who gave a node's reason, when, and what it is."""
    if not state.reason:
        return ", without a reason"
    when = f", {state.since.replace('T', ' ')}" if state.since else ""
    return f" (“{said(state.reason)[0]}”, {state.by or 'nobody knows who'}{when})"


def jobs_on(seen: Snapshot, names: Iterable[str]) -> tuple[Job, ...]:
    """The jobs that hold any of these nodes."""
    wanted = set(names)
    return tuple(job for job in seen.jobs if wanted.intersection(job.nodes))


def jobs_by_node(seen: Snapshot) -> Mapping[str, tuple[Job, ...]]:
    """The jobs that hold each node."""
    found: dict[str, list[Job]] = {}
    for job in seen.jobs:
        for node in job.nodes:
            found.setdefault(node, []).append(job)
    return {node: tuple(jobs) for node, jobs in found.items()}


def job_words(jobs: Iterable[Job]) -> str:
    """Some jobs in words: `12 (ann), 14 (bob)`."""
    told = [f"{job.id} ({job.user})" for job in jobs]
    return ", ".join(told[:10]) + (f" and {len(told) - 10} more" if len(told) > 10 else "")  # noqa: PLR2004


def tell_jobs(run: Run, seen: Snapshot, names: Iterable[str]) -> None:
    """Tell which jobs go on on drained nodes."""
    jobs = jobs_on(seen, names)
    if jobs:
        run.progress.line(f"Still running there: {job_words(jobs)}. They go on to their end.")


def wait_until_empty(
    run: Run, names: tuple[str, ...], limit: float, pause: Callable[[float], None] = time.sleep
) -> None:
    """Wait until no job has anything of these nodes; where that takes too long, they are lost to the run.

    Args:
        run: the run.
        names: compute nodes.
        limit: seconds, 0 for no limit.
        pause: waits for that many seconds.

    Raises:
        HostError: the controller has said nothing for some minutes.
    """

    def busy(seen: Snapshot) -> tuple[str, ...]:
        return tuple(name for name in names if name in seen.by_name and not seen.by_name[name].is_empty)

    left, seen = wait_while(run, busy, limit, pause)
    for name in left:
        jobs = job_words(jobs_on(seen, [name])) or "they are ending"
        words = f"after {limit / 60:.0f} min there are still jobs: {jobs}. It stays drained, and they go on."
        run.lose(name, HostError(name, words))


def wait_while(
    run: Run,
    busy: Callable[[Snapshot], tuple[str, ...]],
    limit: float = 0,
    pause: Callable[[float], None] = time.sleep,
    tell: Callable[[Snapshot], None] = lambda _: None,
) -> tuple[tuple[str, ...], Snapshot]:
    """Look at Slurm again and again until nothing is busy any more, or the time is over.

    Args:
        run: the run.
        busy: the names of what is still busy, nodes or others.
        limit: seconds, 0 for no limit.
        pause: waits for that many seconds.
        tell: called with each look.

    Returns:
        What is busy still, and the last look.

    Raises:
        HostError: the controller has said nothing for some minutes.
    """
    begun = heard = time.monotonic()
    while True:
        try:
            seen = snapshot.ask_up(run.transport, run.controller, PARTS)
        except HostError:
            if time.monotonic() - heard > min(SILENCE_SECONDS, limit or SILENCE_SECONDS):
                raise
            run.is_claimed = False  # its lock has gone with the connection
        else:
            heard = time.monotonic()
            still = busy(seen)
            run.progress.begin("waiting for jobs", still)
            tell(seen)
            if not still or (limit and heard - begun >= limit):
                return still, seen
        pause(POLL_SECONDS)
