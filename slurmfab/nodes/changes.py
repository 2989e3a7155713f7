"""A change outside of a deployment's phases: some resources on one host, or the same on some."""

from __future__ import annotations

import time
from collections.abc import Iterable

from slurmfab.agent.resource import Resource
from slurmfab.asking import request_apply
from slurmfab.errors import DeployFailed, HostError, SlurmfabError
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.ssh.fan_out import on_each


def change(run: Run, phase: str, host: str, *resources: Resource) -> None:
    """Apply resources on one host without which the run cannot go on.

    Args:
        run: gains a step, if anything differed.
        phase: how reports call it.
        host: where.
        resources: what is wanted there.

    Raises:
        DeployFailed: one failed.
        HostError: the host does not answer.
    """
    begun = time.monotonic()
    run.progress.begin(phase, (host,))
    outcomes = request_apply(run, host, resources, dry_run=False)
    step = Step(phase, host, tuple(outcomes), time.monotonic() - begun)
    if step.differs:
        run.steps.append(step)
    run.progress.host_done(host, step)
    if step.has_failed:
        failed = step.with_status("failed")[0]
        raise DeployFailed(f"{host}: {failed.id}: {failed.message}")


def change_each(run: Run, phase: str, hosts: Iterable[str], *resources: Resource) -> None:
    """Apply resources on hosts, all at once; one that fails or does not answer is lost to the run."""
    for host, answer in on_each(hosts, lambda host: change(run, phase, host, *resources)):
        if isinstance(answer, HostError):
            run.lose(host, answer)
        elif isinstance(answer, SlurmfabError):
            run.lose(host, HostError(host, str(answer).removeprefix(f"{host}: ")))
