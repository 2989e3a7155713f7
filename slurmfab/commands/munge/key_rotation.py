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
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from slurmfab.base.answers import ADVICE
from slurmfab.base.errors import AgentFailed, HostError, HostFailed, SlurmfabError, Unreachable
from slurmfab.base.hostlist import fold, shell_word
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import session
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.job_waiting import NODES_AND_JOBS, format_jobs, jobs_on
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import apply_step, gather, request_apply, require_claim, without_foreign
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.plan.phases.daemons import runs_slurmctld
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, Outcome, Resource
from slurmfab.on_hosts.agent.munge.key import NEW_SIZE
from slurmfab.on_hosts.agent.munge.rotation import MungeKeySwitch, StagedMungeKey, digest
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause

PROOF_SECONDS = 60.0
"""How long slurmctld may take to reach all nodes: it asks them when it starts, and some only at a second try."""

POLL_SECONDS = 0.3
DECODED = "Success"  # the beginning of the status of a credential that munged accepts (unmunge(1))


@dataclass(frozen=True)
class Before:
    """The state of the cluster before the switch."""

    # a credential of the controller, made with the old key; empty if munged made none
    credential: str = field(repr=False)
    snapshot: Snapshot  # Slurm; empty if no slurmctld answered
    hearing: frozenset[str]  # the hosts to which slurmctld answered
    job_safety: JobSafety  # has the jobs, to count them again later

    @property
    def answering(self) -> frozenset[str]:
        """The nodes that answered slurmctld."""
        return frozenset(node.name for node in self.snapshot.nodes if node.state.answers)


@dataclass(frozen=True)
class MungeAnswer:
    """The answer of a host's munged."""

    made: str = field(repr=False)  # a new credential; empty if munged made none
    decoded: tuple[str, ...] = ()  # the status of each credential that it was asked to decode, in the same order
    trouble: str = ""  # why it made no credential


def ask_munge(transport: Transport, host: str, *, make: bool, decode: Iterable[str] = ()) -> MungeAnswer:
    """Let a host make a credential, which is not stored, and decode others; HostError if it does not answer."""
    asked = list(decode)
    answer: Mapping[str, Any] = answer_value(
        host, transport.call(host, {"op": "munge", "make": make, "decode": asked}), "munge"
    )
    if len(answer["decoded"]) != len(asked):
        raise AgentFailed(host, f"it decoded {len(answer['decoded'])} of {len(asked)} credentials. {ADVICE}")
    return MungeAnswer(answer["made"], tuple(answer["decoded"]), answer["trouble"])


def state_before(run: Run, plan_input: PlanInput) -> Before:
    """Record the cluster's state without hosts that do not answer; HostError if the controller does not."""
    credential = ask_munge(run.transport, run.controller, make=True).made
    seen, job_safety = snapshot.ask(run.transport, run.controller, NODES_AND_JOBS), JobSafety(run)
    if not seen.is_up:
        return Before(credential, seen, frozenset(), job_safety)
    job_safety.count_jobs(plan_input, seen)
    return Before(credential, seen, hearing(run, run.remaining(run.hosts)), job_safety)


def hearing(run: Run, hosts: Iterable[str]) -> frozenset[str]:
    """The hosts to which slurmctld answers; a host that cannot be reached is excluded from the run."""
    found = set()
    for host, seen in on_each(hosts, lambda host: snapshot.ask(run.transport, host, ())):
        if isinstance(seen, SlurmfabError):
            run.exclude(host, seen)
        elif seen.is_up:
            found.add(host)
    return frozenset(found)


def prove(run: Run, before: Before) -> None:
    """Prove the new key on every host that has it, and that Slurm and its jobs are unchanged.

    `run`: the run; a step is added to it for each host, with a failed outcome for each proof that fails. `before`: the
    state before the switch. Raises HostError if the controller does not answer.
    """
    hosts = run.remaining(run.hosts)
    run.progress.begin("proving", hosts)
    ours = ask_munge(run.transport, run.controller, make=True)
    old = (before.credential,) if before.credential else ()
    answers: dict[str, MungeAnswer] = {}
    for host, answer in on_each(
        hosts, lambda host: ask_munge(run.transport, host, make=True, decode=(ours.made, *old))
    ):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            answers[host] = answer
    theirs = ask_munge(run.transport, run.controller, make=False, decode=[one.made for one in answers.values()])
    slurm = slurm_as_before(run, before)
    for (host, answer), back in zip(answers.items(), theirs.decoded, strict=True):
        outcomes = (*credential_outcomes(run.controller, answer, back), *slurm.get(host, ()))
        step = Step("proof", host, outcomes)
        run.record_steps(step)
        run.progress.host_done(host, step)
    proved = [step.host for step in run.steps if step.phase == "proof" and not step.has_failed]
    if proved:
        run.progress.line(
            f"Proved on {fold(proved)}: credentials decode both ways with {run.controller}; the old key is refused."
        )


def credential_outcomes(controller: str, answer: MungeAnswer, back: str) -> tuple[Outcome, ...]:
    """The proofs by credentials on a host that decoded the controller's, and one that was made with the old key."""
    there, *old = answer.decoded
    back = back if answer.made else answer.trouble
    return (
        outcome("munge:there", there.startswith(DECODED), f"it refuses a credential from {controller}: {there}"),
        outcome("munge:back", back.startswith(DECODED), f"{controller} refuses its credential: {back}"),
        *(outcome("munge:old-key", not one.startswith(DECODED), "it accepts the old key") for one in old),
    )


def outcome(name: str, is_proved: bool, complaint: str) -> Outcome:
    """The outcome of one proof. `complaint`: what is wrong if it failed."""
    advice = f"See systemctl status munge there; {FAB} deploy gives it the controller's key"
    return Outcome(name, OK) if is_proved else Outcome(name, FAILED, message=f"{complaint}. {advice}.")


def slurm_as_before(run: Run, before: Before, pause: Callable[[float], None] = time.sleep) -> dict[str, list[Outcome]]:
    """Wait up to `PROOF_SECONDS` until Slurm is as before, and count jobs; failed outcomes by host."""
    if not before.snapshot.is_up:
        run.progress.line("slurmctld did not answer before the switch either, so there is no proof by Slurm.")
        return {}
    deadline = time.monotonic() + PROOF_SECONDS
    while True:
        deaf = [host for host in run.remaining(run.hosts) if host in before.hearing]
        deaf = [host for host in deaf if host not in hearing(run, deaf)]
        seen = snapshot.ask(run.transport, run.controller, NODES_AND_JOBS)
        answering = {node.name for node in seen.nodes if node.state.answers}
        silent = sorted(before.answering.intersection(run.remaining(run.hosts)) - answering)
        if not (deaf or silent) or time.monotonic() > deadline:
            break
        pause(POLL_SECONDS)
    before.job_safety.count_jobs_again()
    found: dict[str, list[Outcome]] = {}
    for hosts, problem in ((deaf, "slurmctld does not answer it"), (silent, "slurmctld gets no answer from it")):
        for host in hosts:
            text = f"{problem}, unlike before the key was changed. See slurmctld's log; then: {FAB} deploy."
            found.setdefault(host, []).append(Outcome("slurm:answers", FAILED, message=text))
    return found


COMMAND = "rotate-munge-key"

GRACE_SECONDS = 1.0
"""Seconds between the stop of slurmctld and the switch: job steps that were just assigned are launched in this time."""

NO_CHANGE = "The munge key was not changed on any host."
UNTRUSTED = f"If a compute node is not to be trusted, remove it first: {FAB} remove-node %s --abandon."
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
    facts = without_foreign(run, facts)
    require_claim(run)
    together(run, "locking", run.remaining(run.hosts), lambda host: request_apply(run, host, [], dry_run=False))
    plan_input = PlanInput(run.inventory.cluster, run.inventory.lock, facts)
    before = state_before(run, plan_input)
    key = os.urandom(NEW_SIZE)
    stage(run, base64.b64encode(key).decode())
    without = tuple(run.failed_hosts)
    exchange(run, digest(key), [name for name in plan_input.cluster.controllers if runs_slurmctld(plan_input, name)])
    for host in without:
        error = run.failed_hosts[host]
        kind = Unreachable if isinstance(error, Unreachable) else HostFailed
        run.change_reason(host, kind(host, f"{sentence(error.reason)} {OLD_KEY}{jobs_hurt(before, host)}"))
    if run.controller in run.failed_hosts:
        raise SlurmfabError(
            f"{run.controller} is the controller, so the new key could not be proved. Other hosts have it already. "
            f"When {run.controller} works again, {FAB} deploy copies its key, old or new, to all hosts."
        )
    prove(run, before)


def refuse_undeployed(run: Run, facts: Mapping[str, HostFacts]) -> None:
    """Refuse hosts without munge, and a controller without munge key, by SlurmfabError; nothing was changed."""
    without = [host for host, fact in facts.items() if "munge" not in fact.packages or "munge" not in fact.accounts]
    if without:
        raise SlurmfabError(
            f"{fold(without)}: munge is not installed there yet. First: {FAB} deploy. {NO_CHANGE} "
            f"{UNTRUSTED % shell_word(without)}"
        )
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
    """Switch keys while slurmctld is stopped, and print how long; SlurmfabError, no key new, if it does not stop."""
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
    """Replace the key by the staged one on all hosts at once; a host that fails is excluded.

    Returns for how many seconds at most hosts had different keys: until the last host answered that it has the new one.
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
            f"{fold(refusing)}: no new munge key can be written there. {NO_CHANGE} Fix this and rotate again. "
            f"{UNTRUSTED % shell_word(refusing)}"
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


def sentence(text: str) -> str:
    """A text with a full stop, unless it ends with a punctuation mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def jobs_hurt(before: Before, host: str) -> str:
    """The advice about the jobs on a node that keeps the old key; empty if it has no jobs."""
    jobs = jobs_on(before.snapshot, [host])
    if not jobs:
        return ""
    return f" Until then Slurm does not learn that its jobs end; scancel jobs that have ended: {format_jobs(jobs)}."
