"""One run over a cluster's hosts: what it knows, whom it lost, what it did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from slurmfab.consent import NOTHING, Consent
from slurmfab.errors import DeployFailed, HostError, InputError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.progress import Progress
from slurmfab.promises.forecast import Forecast
from slurmfab.report import Report, Step
from slurmfab.ssh.fan_out import Asked
from slurmfab.ssh.transport import Transport

if TYPE_CHECKING:
    from slurmfab.facts import HostFacts
    from slurmfab.promises.tally import Tally


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
        record: called with the run before any host is changed, when it raises to stop the run, and as the run goes on.
        guard: called with all outcomes of a survey before anything is changed for it; it raises to stop the run.
        undoes: the id of the run that this one undoes, for a rollback; empty otherwise.
        digest_key: what hosts key the digests of differences with, for a saved plan; empty for no digests.
        installs_python: whether a host without python3 gets it; otherwise it is left out.
        asked_ahead: the answers to come of hosts that were asked before anybody waited for them, by whom that was.
        asked: when the hosts were last asked for their facts, by the clock of `begun`.
        is_claimed: whether this run has the controller's lock, without which nothing is changed anywhere.
        claiming: held while that is found out.
        forecast: what its changes need of Slurm and would do to jobs, as the last survey showed.
        is_refused: whether it ends without them, since nobody has agreed to a danger.
        jobs: how many ran before and after its changes; `None` where nobody knew, or nothing was changed.
        left_drained: the nodes that an earlier run has drained for a change and not given back.
        other_hardware: the nodes whose hardware is not what the lock holds.
        lost: the hosts that could not be gone on with, and why.
        steps: what was done, in the order in which it ended.
        begun: when, by a clock that only goes forward.
        started: when, for people and for names.
        is_recorded: whether it is on record, since something was, or is about to be, changed.
        recording: held meanwhile, for hosts are asked at once.
    """

    command: str
    inventory: Inventory
    transport: Transport
    progress: Progress
    hosts: tuple[str, ...]
    keep: Callable[[Inventory], None] = lambda _: None
    consent: Consent = NOTHING
    record: Callable[[Run], None] = lambda _: None
    guard: Callable[[Sequence[Step]], None] = lambda _: None
    undoes: str = ""
    digest_key: str = field(default="", repr=False)
    installs_python: bool = True
    asked_ahead: dict[tuple[str, ...], Asked[HostFacts]] = field(default_factory=dict, repr=False)
    asked: float = field(default_factory=time.monotonic)
    is_claimed: bool = False
    claiming: threading.Lock = field(default_factory=threading.Lock, repr=False)
    forecast: Forecast = field(default_factory=Forecast)
    is_refused: bool = False
    jobs: Tally | None = None
    left_drained: tuple[str, ...] = ()
    other_hardware: tuple[str, ...] = ()
    lost: dict[str, HostError] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    started: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    is_recorded: bool = False
    recording: threading.Lock = field(default_factory=threading.Lock, repr=False)

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
            is_refused=self.is_refused,
            jobs=self.jobs,
            left_drained=self.left_drained,
            other_hardware=self.other_hardware,
            timeline=tuple((at - self.begun, doing) for at, doing in self.progress.timeline),
            forecast=self.forecast,
        )

    def lose(self, host: str, error: SlurmfabError) -> None:
        """Go on without a host."""
        self.lost[host] = error if isinstance(error, HostError) else HostError(host, str(error))
        self.progress.host_lost(host, self.lost[host])

    def before_change(self) -> None:
        """Have the run recorded as begun, unless it is already; called before anything that may change a host.

        Raises:
            InputError: there is no place for the record.
        """
        with self.recording:
            if not self.is_recorded:
                self.record(self)
                self.is_recorded = True

    def note(self) -> None:
        """Bring the record up to date, if there is one, for whoever asks what a run did that was cut off.

        A disk that is full by now is no reason to stop halfway; the end of the run will complain.
        """
        if self.is_recorded:
            with suppress(InputError):
                self.record(self)

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
