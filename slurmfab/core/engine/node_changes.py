"""Changes outside of a deployment's phases: resources on one host, or the same resources on several hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from slurmfab.base.errors import DeployFailed, HostError, SlurmfabError
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Outcome, Resource
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard


def change(run: Run, phase: str, host: str, *resources: Resource, proved: bool = False) -> None:
    """Apply resources on one host, proved by another login or taken back if asked; if this fails, the run ends.

    Raises DeployFailed if a resource failed; HostError if the host does not answer.
    """
    run.progress.begin(phase, (host,))
    step = (apply_proved_step if proved else apply_step)(run, phase, host, resources)
    if step.differs:
        run.record_steps(step)
    run.progress.host_done(host, step)
    if step.has_failed:
        failed = step.with_status("failed")[0]
        raise DeployFailed(f"{host}: {failed.id}: {failed.message}")


def change_each(run: Run, phase: str, hosts: Iterable[str], *resources: Resource) -> None:
    """Apply resources on hosts at once, as steps named for the phase; a failed or silent host is excluded."""
    work_on_each(run, hosts, lambda host: change(run, phase, host, *resources))


def work_on_each(run: Run, hosts: Iterable[str], work: Callable[[str], None]) -> None:
    """Do work on hosts at once; one that fails with a `SlurmfabError`, or does not answer, is excluded."""
    for host, answer in on_each(hosts, work):
        if isinstance(answer, HostError):
            run.exclude(host, answer)
        elif isinstance(answer, SlurmfabError):
            run.exclude(host, HostError(host, str(answer).removeprefix(f"{host}: ")))


def apply_proved_step(run: Run, phase: str, host: str, resources: Iterable[Any]) -> Step:
    """Have a host's agent change who may log in, log in again, and have the agent keep it, or else take it back.

    If this process or the connection ends meanwhile, the host takes the change back by itself. The step is not in the
    run yet. Raises SlurmfabError for another run; HostError if the host was lost, its step in the run if it had begun.
    """
    begun = time.monotonic()
    step = apply_step(run, phase, host, resources)
    if not any(map(is_guarded, step.outcomes)):
        return step
    refusal = ""
    try:
        run.transport.log_in_again(host)
    except HostError as error:
        refusal = error.reason
    try:
        ended = apply_step(run, phase, host, (LoginGuard(proved=not refusal),))
    except HostError:
        run.record_steps(step)
        raise
    problems = ended.with_status(FAILED)
    if problems:
        refusal = f"{refusal} {problems[0].message}".strip()
    elif not ended.with_status(CHANGED):
        refusal = refusal or "the host has taken it back before that"
    told = tuple(judged(outcome, refusal) for outcome in step.outcomes)
    return replace(step, outcomes=told, seconds=time.monotonic() - begun)


def is_guarded(outcome: Outcome) -> bool:
    """Whether a resource has changed who may log in; an earlier guard that has ended has not."""
    return outcome.status == CHANGED and not outcome.id.startswith(f"{LoginGuard.kind}:")


def judged(outcome: Outcome, refusal: str) -> Outcome:
    """A changed outcome after another login. `refusal`: why the login failed; empty where it did not."""
    if not is_guarded(outcome):
        return outcome
    if not refusal:
        return replace(outcome, message="another login has passed it")
    message = f"with this, another login failed: {refusal.rstrip('.')}. So the host has what it had before"
    return replace(outcome, status=FAILED, message=message)
