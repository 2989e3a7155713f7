"""`fab rotate-munge-key`: a new munge key is staged on all hosts, switched on all at once, and proved on every host.

munged has one key at a time. While hosts have different keys, they refuse each other's credentials; this lasts as long
as a restart of munged. slurmctld is stopped meanwhile, because slurmd repeats a message that gets no answer, but not
one that is refused.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from slurmfab.base.errors import HostError, HostFailed, SlurmfabError, Unreachable
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.commands.munge import key_proof
from slurmfab.commands.munge.key_proof import Before
from slurmfab.core.engine import session
from slurmfab.core.engine.job_waiting import format_jobs, jobs_on
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import apply_step, gather, request_apply, require_claim
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.plan.phases.daemons import runs_slurmctld
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import other_clusters
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import FAILED, Resource
from slurmfab.on_hosts.agent.munge.key import NEW_SIZE
from slurmfab.on_hosts.agent.munge.rotation import MungeKeySwitch, StagedMungeKey, digest
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause

COMMAND = "rotate-munge-key"

GRACE_SECONDS = 1.0
"""Seconds between the stop of slurmctld and the switch: job steps that were just assigned are launched in this time."""

NO_CHANGE = "The munge key was not changed on any host."
OLD_KEY = f"It holds the old munge key. When it is back: {FAB} deploy gives it the new one."
EITHER_KEY = f"It holds the old munge key or the new one. When this is repaired: {FAB} deploy gives it the new one."

Result = TypeVar("Result")


def rotate_munge_key(cluster: str, output: session.Output) -> int:
    """Give all hosts a new munge key; 3 if unreachable ones keep the old, otherwise as `rotate`."""
    known = loading.load_named(cluster)
    return session.perform(session.start(known, "", output, RunOptions(COMMAND)), output, rotate)


def rotate(run: Run) -> None:
    """Rotate the key on the hosts that can be reached; the others are excluded from the run.

    Raises DeployFailed or InputError without controller, or for another cluster's host; nothing was changed. Raises
    SlurmfabError if a host cannot store the new key, so that none has it, or the controller fails after the switch.
    """
    facts = gather(run, run.hosts, may_prepare=False)
    refuse_undeployed(run, facts)
    other_clusters.refuse_in_use(run.inventory.cluster, run.inventory.lock, facts)
    require_claim(run)
    together(run, "locking", run.remaining(run.hosts), lambda host: request_apply(run, host, [], dry_run=False))
    plan_input = PlanInput(run.inventory.cluster, run.inventory.lock, facts)
    before = key_proof.before(run, plan_input)
    key = os.urandom(NEW_SIZE)
    stage(run, base64.b64encode(key).decode())
    without = tuple(run.failed_hosts)
    exchange(run, digest(key), [name for name in plan_input.cluster.controllers if runs_slurmctld(plan_input, name)])
    for host in without:
        run.change_reason(host, with_advice(run.failed_hosts[host], f"{OLD_KEY}{jobs_hurt(before, host)}"))
    if run.controller in run.failed_hosts:
        raise SlurmfabError(
            f"{run.controller} is the controller, so the new key could not be proved. Other hosts have it already. "
            f"When {run.controller} works again, {FAB} deploy copies its key, old or new, to all hosts."
        )
    key_proof.prove(run, before)


def refuse_undeployed(run: Run, facts: Mapping[str, HostFacts]) -> None:
    """Refuse hosts without munge, and a controller without munge key, by SlurmfabError; nothing was changed."""
    without = [host for host, fact in facts.items() if "munge" not in fact.packages or "munge" not in fact.accounts]
    if without:
        raise SlurmfabError(f"{fold(without)}: munge is not installed there yet. First: {FAB} deploy. {NO_CHANGE}")
    if not facts[run.controller].munge_key:
        raise SlurmfabError(f"{run.controller}: there is no munge key yet. First: {FAB} deploy. {NO_CHANGE}")


def stage(run: Run, content: str) -> None:
    """Write the new key (base64) beside the old one on all hosts; if one fails, remove it again everywhere."""
    try:
        together(run, "staging", run.remaining(run.hosts), lambda host: applied(run, host, StagedMungeKey(content)))
    except SlurmfabError:
        unstage(run)
        raise


def unstage(run: Run) -> None:
    """Remove staged keys from all hosts that answer; the next deployment removes those of other hosts."""
    for host, answer in on_each(run.remaining(run.hosts), lambda host: applied(run, host, StagedMungeKey(""))):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)


def exchange(run: Run, key_digest: str, controllers: Sequence[str]) -> None:
    """Switch to the staged key while slurmctld is stopped, and print how long this took.

    `controllers`: the hosts on which slurmctld runs. Raises SlurmfabError if slurmctld cannot be stopped; no host has
    the new key.
    """
    begun = time.monotonic()
    try:
        pause = SlurmctldPause(grace=GRACE_SECONDS)
        together(run, "stopping slurmctld", run.remaining(controllers), lambda host: applied(run, host, pause))
        window = switch(run, key_digest)
    except SlurmfabError:
        unstage(run)
        raise
    finally:
        resume(run, controllers)
    measured = {"keys differed": window, **({"slurmctld away": time.monotonic() - begun} if controllers else {})}
    run.record_steps(*(Step(what, run.controller, (), seconds) for what, seconds in measured.items()))
    and_slurmctld = ", slurmctld was away for {slurmctld away:.1f} s" if controllers else ""
    run.progress.line(
        ("The hosts' keys differed for {keys differed:.2f} s at most" + and_slurmctld + ".").format(**measured)
    )


def switch(run: Run, key_digest: str) -> float:
    """Replace the key by the staged one on all hosts at once; a host that fails is excluded, the others continue.

    Returns for how many seconds at most hosts had different keys: from the first request to the last answer of a host
    that has the new key.
    """
    hosts, window, begun = run.remaining(run.hosts), 0.0, time.monotonic()

    def ask(host: str) -> Step:
        step = apply_step(run, "munge key", host, [MungeKeySwitch(key_digest)])
        return replace(step, seconds=time.monotonic() - begun)

    run.progress.begin("switching", hosts)
    for host, answer in on_each(hosts, ask, len(hosts)):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, HostError(host, f"{sentence(getattr(answer, 'reason', str(answer)))} {EITHER_KEY}"))
            continue
        run.record_steps(answer)
        run.progress.host_done(host, answer)
        if answer.has_failed:
            run.exclude(host, HostError(host, f"{failure(host, answer).reason}. {EITHER_KEY}"))
        else:
            window = max(window, answer.seconds)
    return window


def resume(run: Run, controllers: Iterable[str]) -> None:
    """Start slurmctld again; a failure is recorded as a failed step, and systemd tries to start it as well."""
    for host, answer in on_each(
        run.remaining(controllers), lambda host: request_apply(run, host, [SlurmctldPause(paused=False)], dry_run=False)
    ):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        elif any(outcome.status == FAILED for outcome in answer):
            run.record_steps(Step("slurmctld", host, tuple(answer)))


def together(run: Run, doing: str, hosts: Sequence[str], ask: Callable[[str], Result]) -> dict[str, Result]:
    """Do on all reachable hosts what has to succeed on all of them before any key is switched.

    Raises DeployFailed without the controller; SlurmfabError if it failed on a host, as for another active run.
    """
    answers = {}
    refusing = []
    run.progress.begin(doing, hosts)
    for host, answer in on_each(hosts, ask):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
            refusing += [] if isinstance(answer, Unreachable) else [host]
        else:
            answers[host] = answer
            run.progress.host_done(host)
    if refusing:
        raise SlurmfabError(
            f"{fold(refusing)}: no new munge key can be written there. {NO_CHANGE} Fix this and rotate again."
        )
    run.require_controller()
    return answers


def applied(run: Run, host: str, resource: Resource) -> None:
    """Converge a resource on a host. Raises HostError if it failed, or the host cannot be reached."""
    step = Step("", host, tuple(request_apply(run, host, [resource], dry_run=False)))
    if step.has_failed:
        raise failure(host, step)


def failure(host: str, step: Step) -> HostFailed:
    """The error for a step that failed on a host."""
    failed = step.with_status(FAILED)[0]
    return HostFailed(host, f"{failed.id}: {failed.message}")


def with_advice(error: HostError, advice: str) -> HostError:
    """The error of an excluded host, with advice after its reason."""
    kind = Unreachable if isinstance(error, Unreachable) else HostFailed
    return kind(error.host, f"{sentence(error.reason)} {advice}")


def sentence(text: str) -> str:
    """A text with a full stop, unless it ends with a punctuation mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def jobs_hurt(before: Before, host: str) -> str:
    """The advice about the jobs on a node that keeps the old key; empty if it has no jobs."""
    jobs = jobs_on(before.snapshot, [host])
    if not jobs:
        return ""
    return f" Until then Slurm does not learn that its jobs end; scancel jobs that have ended: {format_jobs(jobs)}."
