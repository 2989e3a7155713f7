"""A change of who may log in, which counts only when another login has passed it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from slurmfab.base.errors import HostError
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Outcome
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard


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
