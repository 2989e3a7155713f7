"""Changes outside of a deployment's phases: resources on one host, or the same resources on several hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmfab.base.errors import DeployFailed, HostError, SlurmfabError
from slurmfab.core.engine.login_proof import apply_proved_step
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import Resource


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
