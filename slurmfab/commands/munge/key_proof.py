"""Proof of a new munge key: credentials decode in both directions, old ones are refused, Slurm is as before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.job_waiting import NODES_AND_JOBS
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, Outcome

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
    lines = transport.call(host, {"op": "munge", "make": make, "decode": list(decode)})
    answer: Mapping[str, Any] = answer_value(host, lines, "munge")
    return MungeAnswer(answer["made"], tuple(answer["decoded"]), answer["trouble"])


def before(run: Run, plan_input: PlanInput) -> Before:
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
    """Wait until Slurm is as before, for at most `PROOF_SECONDS`, and count the jobs.

    `run`: the run; the count of jobs is added to it. `before`: the state before the switch. Returns the failed
    outcomes, by host.
    """
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
