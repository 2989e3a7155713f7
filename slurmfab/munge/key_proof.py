"""The proof of a new munge key: credentials believed in both directions, old ones refused, Slurm and jobs as before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.agent.resource import FAILED, OK, Outcome
from slurmfab.errors import AgentFailed, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.promises.keeping import Promise
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.ssh.fan_out import on_each
from slurmfab.ssh.transport import Transport
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Snapshot

PARTS = ("nodes", "jobs")
PATIENCE = 60.0
"""Seconds for slurmctld to hear from all nodes: it asks them when it starts, and some only at a second try."""

POLL_SECONDS = 0.3
BELIEVED = "Success"
"""How the status of a credential begins that is believed (unmunge(1))."""


@dataclass(frozen=True)
class Before:
    """How it was before the switch.

    Args:
        credential: one of the controller's, made with the old key; empty where none could be made.
        snapshot: Slurm; empty where no slurmctld answered.
        hearing: the hosts whose questions slurmctld answered.
        promise: has the jobs, to count them again.
    """

    credential: str = field(repr=False)
    snapshot: Snapshot
    hearing: frozenset[str]
    promise: Promise

    @property
    def answering(self) -> frozenset[str]:
        """The nodes that answered slurmctld."""
        return frozenset(node.name for node in self.snapshot.nodes if node.state.answers)


@dataclass(frozen=True)
class Answer:
    """What munge said on a host: a new credential, the status of each that it was to decode, and why it made none."""

    made: str = field(repr=False)
    decoded: tuple[str, ...] = ()
    trouble: str = ""


def ask_munge(transport: Transport, host: str, *, make: bool, decode: Iterable[str] = ()) -> Answer:
    """Have a host make a credential and decode others; none of them is kept anywhere.

    Raises:
        HostError: it does not answer.
    """
    for line in transport.call(host, {"op": "munge", "make": make, "decode": list(decode)}):
        if "munge" in line:
            told: Mapping[str, Any] = line["munge"]
            return Answer(told["made"], tuple(told["decoded"]), told["trouble"])
    raise AgentFailed(host, "the agent answered without a word of munge's; please report this.")


def before(run: Run, situation: Situation) -> Before:
    """Ask how it is, on all hosts of a run that are well; those that do not answer are lost to it.

    Args:
        run: the run.
        situation: the cluster and what its hosts said of themselves.

    Raises:
        HostError: the controller does not answer.
    """
    credential = ask_munge(run.transport, run.controller, make=True).made
    seen, promise = snapshot.ask(run.transport, run.controller, PARTS), Promise(run)
    if not seen.is_up:
        return Before(credential, seen, frozenset(), promise)
    promise.remember(situation, seen)
    return Before(credential, seen, hearing(run, run.well(run.hosts)), promise)


def hearing(run: Run, hosts: Iterable[str]) -> frozenset[str]:
    """Those of the hosts whose questions slurmctld answers; one that cannot be reached is lost to the run."""
    found = set()
    for host, seen in on_each(hosts, lambda host: snapshot.ask(run.transport, host, ())):
        if isinstance(seen, SlurmfabError):
            run.lose(host, seen)
        elif seen.is_up:
            found.add(host)
    return frozenset(found)


def prove(run: Run, before: Before) -> None:
    """Prove the new key on every host that has it, and that Slurm and its jobs are as before.

    Args:
        run: the run; it gains a step for each host, with a failed outcome for each proof that fails.
        before: how it was.

    Raises:
        HostError: the controller does not answer.
    """
    hosts = run.well(run.hosts)
    run.progress.begin("proving", hosts)
    ours = ask_munge(run.transport, run.controller, make=True)
    old = (before.credential,) if before.credential else ()
    answers: dict[str, Answer] = {}
    for host, answer in on_each(
        hosts, lambda host: ask_munge(run.transport, host, make=True, decode=(ours.made, *old))
    ):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            answers[host] = answer
    theirs = ask_munge(run.transport, run.controller, make=False, decode=[one.made for one in answers.values()])
    slurm = slurm_as_before(run, before)
    for (host, answer), back in zip(answers.items(), theirs.decoded, strict=True):
        outcomes = (*of_credentials(run.controller, answer, back), *slurm.get(host, ()))
        step = Step("proof", host, outcomes)
        run.steps.append(step)
        run.progress.host_done(host, step)
    proved = [step.host for step in run.steps if step.phase == "proof" and not step.has_failed]
    if proved:
        run.progress.line(
            f"Proved on {fold(proved)}: credentials both ways with {run.controller}; the old key is refused."
        )


def of_credentials(controller: str, answer: Answer, back: str) -> tuple[Outcome, ...]:
    """What the credentials prove on a host.

    Args:
        controller: the primary controller.
        answer: the host's; it has decoded a credential of the controller's, and one made with the old key.
        back: what the controller made of the host's credential.
    """
    there, *old = answer.decoded
    back = back if answer.made else answer.trouble
    return (
        outcome("munge:there", there.startswith(BELIEVED), f"a credential from {controller} is not believed: {there}"),
        outcome("munge:back", back.startswith(BELIEVED), f"{controller} does not believe its credential: {back}"),
        *(outcome("munge:old-key", not one.startswith(BELIEVED), "it believes the old key") for one in old),
    )


def outcome(name: str, is_proved: bool, complaint: str) -> Outcome:
    """The outcome of one proof."""
    advice = "Look at: systemctl status munge. fab deploy gives it the controller's key"
    return Outcome(name, OK) if is_proved else Outcome(name, FAILED, message=f"{complaint}. {advice}.")


def slurm_as_before(run: Run, before: Before, pause: Callable[[float], None] = time.sleep) -> dict[str, list[Outcome]]:
    """What Slurm proves of each host, once all is as before or the patience is over; the run gains its count of jobs.

    Args:
        run: the run.
        before: how it was.
        pause: waits for that many seconds.
    """
    if not before.snapshot.is_up:
        run.progress.line("slurmctld did not answer before either, so Slurm proves nothing.")
        return {}
    deadline = time.monotonic() + PATIENCE
    while True:
        deaf = [host for host in run.well(run.hosts) if host in before.hearing]
        deaf = [host for host in deaf if host not in hearing(run, deaf)]
        seen = snapshot.ask(run.transport, run.controller, PARTS)
        answering = {node.name for node in seen.nodes if node.state.answers}
        silent = sorted(before.answering.intersection(run.well(run.hosts)) - answering)
        if not (deaf or silent) or time.monotonic() > deadline:
            break
        pause(POLL_SECONDS)
    before.promise.account()
    found: dict[str, list[Outcome]] = {}
    for hosts, what in ((deaf, "slurmctld does not answer it"), (silent, "slurmctld does not hear from it")):
        for host in hosts:
            words = f"{what}, and it did before the key was changed. See the log of slurmctld; then: fab deploy."
            found.setdefault(host, []).append(Outcome("slurm:answers", FAILED, message=words))
    return found
