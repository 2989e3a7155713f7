"""One run over a cluster's hosts: what it knows, whom it lost, what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from slurmfab.consent import NOTHING, Consent
from slurmfab.errors import DeployFailed, HostError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.progress import Progress
from slurmfab.report import Report, Step
from slurmfab.ssh.transport import Transport


@dataclass
class Run:
    """One run over a cluster's hosts: what it knows, whom it lost, what it did.

    Args:
        command: what was asked for, such as `deploy`.
        inventory: the cluster file and its lock; `lock` in it grows as hosts answer.
        transport: the way to the hosts.
        progress: whom to tell.
        hosts: those that the run is about.
        keep: called with the inventory when the lock has changed, before anything is changed on a host.
        consent: what the user has agreed to beforehand.
        guard: called with all outcomes of a survey before anything is changed for it; it raises to stop the run.
        lost: the hosts that could not be gone on with, and why.
        steps: what was done, in the order in which it ended.
        begun: when, by a clock that only goes forward.
        started: when, for people and for names.
    """

    command: str
    inventory: Inventory
    transport: Transport
    progress: Progress
    hosts: tuple[str, ...]
    keep: Callable[[Inventory], None] = lambda _: None
    consent: Consent = NOTHING
    guard: Callable[[Sequence[Step]], None] = lambda _: None
    lost: dict[str, HostError] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    started: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def id(self) -> str:
        """What tells this run from others, such as `20261121T104500.123456Z-deploy`; ids sort by time."""
        return f"{self.started:%Y%m%dT%H%M%S.%fZ}-{self.command}"

    @property
    def controller(self) -> str:
        """The primary controller."""
        return self.inventory.cluster.controller

    def report(self) -> Report:
        """The run so far."""
        return Report(
            self.command,
            self.inventory.cluster.name,
            self.hosts,
            tuple(self.steps),
            dict(self.lost),
            time.monotonic() - self.begun,
        )

    def lose(self, host: str, error: SlurmfabError) -> None:
        """Go on without a host."""
        self.lost[host] = error if isinstance(error, HostError) else HostError(host, str(error))
        self.progress.host_lost(host, self.lost[host])

    def require_controller(self) -> None:
        """Stop if the controller is lost; asked when all hosts have ended what they were at, so that each has its say.

        Raises:
            DeployFailed: it is, and nothing may start without it.
        """
        if self.controller in self.lost:
            raise DeployFailed(f"{self.controller} is the controller, so nothing else was started.")

    def well(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Those of the hosts that are not lost."""
        return tuple(host for host in hosts if host not in self.lost)
