"""One run of a command over hosts of a cluster: what was asked for, what it works with, and what came of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from slurmfab.base.errors import DeployFailed, HostError, HostKeyUnknown, InputError, NameUnknown, SlurmfabError
from slurmfab.base.exit_codes import DONE
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import agrees, can_ask, write
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Mark, Report, Step, resource_keys
from slurmfab.core.impact.approvals import NOTHING, Approvals
from slurmfab.core.impact.forecast import Forecast
from slurmfab.hosts.fan_out import PendingAnswers
from slurmfab.hosts.route import CONNECT_SECONDS
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.core.resource import WOULD_CHANGE

if TYPE_CHECKING:
    from slurmfab.cluster.facts import HostFacts
    from slurmfab.cluster.inventory.shared_files import FilesRead
    from slurmfab.core.impact.job_tally import JobTally
    from slurmfab.core.plan.plan import Choice
    from slurmfab.core.plan.plan_input import PlanInput


@dataclass(frozen=True)
class RunOptions:
    """What was asked for."""

    command: str  # name of the command, such as `deploy`
    approvals: Approvals = NOTHING  # what the user agreed to beforehand
    undoes: str = ""  # id of the run that a rollback undoes; empty for all other commands
    # key for the digests of differences in a saved plan; empty for no digests
    digest_key: str = field(default="", repr=False)
    installs_python: bool = True  # whether a host without python3 gets it; otherwise such a host is excluded
    wakes: bool = False  # whether nodes that Slurm has powered down are woken, so that they take part
    # hosts of a first contact that did not answer, as the user typed them, each with the reason
    not_met: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False  # whether the user is asked, on a terminal, before what cannot be undone
    patience: int = CONNECT_SECONDS  # how long a host may take to accept a connection, in seconds
    only: Choice | None = None  # the phases that are carried out; `None` for all


ResourcesByHost = Mapping[str, tuple[Any, ...]]  # the resources of a phase, by host


class PackageSource(Protocol):
    """Gives hosts the packages that a deployment installs: the repositories that they have, or files that are sent."""

    def refusals(self, inventory: Inventory, plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
        """The hosts that lack packages which this source does not have, with reasons; InputError for bad files."""

    def deliver(self, run: Run, plan_input: PlanInput, resources: ResourcesByHost) -> ResourcesByHost:
        """Send packages to hosts that lack them; the phase's resources, which install from there, by host.

        Hosts that get none are excluded. Raises InputError if a file is missing, damaged or another one than before.
        """


@dataclass(frozen=True)
class HostRepositories:
    """Hosts download packages from the repositories in their own apt configuration; the deployer sends nothing."""

    def refusals(self, inventory: Inventory, plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
        """None: whether a repository has a package shows when the host installs it."""
        del plan_input, hosts
        assert not inventory.cluster.bundle, "a cluster file with bundles needs a source that reads them"
        return {}

    def deliver(self, run: Run, plan_input: PlanInput, resources: ResourcesByHost) -> ResourcesByHost:
        """The resources as they are."""
        del run, plan_input
        return resources


@dataclass(frozen=True)
class RunHooks:
    """Functions that a command gives to its run."""

    # saves the lock of the run's inventory where it has changed, before any host is changed
    save_lock: Callable[[Run], None] = lambda _: None
    # gets the run and all outcomes of a survey; raises an error if nothing may be changed for them
    check_survey: Callable[[Run, Sequence[Step]], None] = lambda _run, _steps: None


@dataclass
class ClusterClaim:
    """The lock on the primary controller, which a run takes before it changes anything on any host."""

    is_held: bool = False  # whether this run holds it
    # held while the run takes it, since hosts are worked on in parallel
    mutex: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def mark_taken(self) -> None:
        """Note that the controller gave the lock to this run."""
        self.is_held = True

    def mark_lost(self) -> None:
        """Note that the connection ended, which makes the controller release the lock."""
        self.is_held = False


@dataclass
class PendingFacts:
    """Facts that hosts were asked for before they are needed."""

    # the answers to come, by the hosts that were asked together
    answers: dict[tuple[str, ...], PendingAnswers[HostFacts]] = field(default_factory=dict, repr=False)
    asked_at: float = field(default_factory=time.monotonic)  # when hosts were last asked for facts, by `time.monotonic`


@dataclass
class RecordKeeping:
    """The record of a run on disk, which is begun before the first host is changed."""

    write: Callable[[Run], None] = lambda _: None  # writes the record as of now; raises `InputError` where it cannot
    is_begun: bool = False  # whether the record is there
    # held while it is begun, since hosts are worked on in parallel
    mutex: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(frozen=True)
class JobImpact:
    """What a run does to jobs and nodes of the cluster."""

    # which restarts its changes need, and what they would do to jobs, by the last survey
    forecast: Forecast = field(default_factory=Forecast)
    is_refused: bool = False  # whether the run ends without these changes, since a disruptive one was not allowed
    # how many jobs ran before and after the changes; `None` where that is unknown or nothing was changed
    tally: JobTally | None = None
    left_drained: tuple[str, ...] = ()  # nodes that an earlier run drained for a change and did not resume


class Run:
    """One run of a command over hosts of a cluster.

    What came of it (steps, failed hosts, impact on jobs) and what it is about (inventory, hosts) are changed by the
    methods alone; all else stays as it was given. `write_record`: see `RecordKeeping`. `started`: now by default.
    """

    def __init__(
        self,
        options: RunOptions,
        inventory: Inventory,
        hosts: tuple[str, ...],
        transport: Transport,
        progress: Progress,
        *,
        packages: PackageSource | None = None,
        hooks: RunHooks | None = None,
        write_record: Callable[[Run], None] = lambda _: None,
        started: datetime | None = None,
    ) -> None:
        self.options = options
        self.transport = transport
        self.progress = progress
        self.packages = packages or HostRepositories()
        self.hooks = hooks or RunHooks()
        self.record = RecordKeeping(write_record)
        self.claim = ClusterClaim()
        self.pending = PendingFacts()
        self.lock_at_start = inventory.lock
        self.started = started or datetime.now(timezone.utc)
        self._begun = time.monotonic()
        self._inventory = inventory
        self._hosts = hosts
        self._steps: list[Step] = []
        self._differed: set[tuple[str, str, str]] = set()
        self.only = options.only
        self.others: tuple[Step, ...] = ()
        self._failed_hosts: dict[str, HostError] = {}
        self.doubted: dict[str, str] = {}  # hosts whose word is in the way of the others; see `PlanInput`
        self._other_hardware: tuple[str, ...] = ()
        self._job_impact = JobImpact()
        self._error_code = DONE

    @property
    def id(self) -> str:
        """The run's name, such as `20261121T104500.123456Z-deploy`; ids sort by time."""
        return f"{self.started:%Y%m%dT%H%M%S.%fZ}-{self.options.command}"

    @property
    def inventory(self) -> Inventory:
        """The cluster file, and the lock, which grows as hosts answer."""
        return self._inventory

    @property
    def controller(self) -> str:
        """The primary controller."""
        return self._inventory.cluster.controller

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the run is about."""
        return self._hosts

    @property
    def steps(self) -> Sequence[Step]:
        """What was done, in the order in which it ended."""
        return self._steps

    @property
    def failed_hosts(self) -> Mapping[str, HostError]:
        """The hosts that are excluded from the rest of the run, each with the reason."""
        return self._failed_hosts

    @property
    def job_impact(self) -> JobImpact:
        """What the run does to jobs and nodes."""
        return self._job_impact

    def remaining(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Those of the hosts that are not excluded."""
        return tuple(host for host in hosts if host not in self._failed_hosts)

    def report(self) -> Report:
        """The run so far."""
        impact = self._job_impact
        return Report(
            self.options.command,
            self._inventory.cluster.name,
            self._hosts,
            tuple(self._steps),
            dict(self._failed_hosts),
            time.monotonic() - self._begun,
            is_refused=impact.is_refused,
            jobs=impact.tally,
            left_drained=impact.left_drained,
            other_hardware=self._other_hardware,
            timeline=tuple(Mark(self.at(at), doing) for at, doing in self.progress.timeline),
            forecast=impact.forecast,
            error_code=self._error_code,
            not_met=self.options.not_met,
            differed=frozenset(self._differed),
            only=self.only.words if self.only else (),
            others=self.others,
        )

    def note_survey(self, steps: Iterable[Step]) -> None:
        """Note which resources a survey found to differ, for the number of changes at the end."""
        self._differed |= resource_keys(steps, WOULD_CHANGE)

    def takes(self, phase: str) -> bool:
        """Whether the run carries out a phase, by its name."""
        return self.only is None or phase in self.only.phases

    def widens(self, steps: Iterable[Step]) -> bool:
        """Whether a survey shows that phases of `--only` are changed that others have to follow; these come with it."""
        before, self.only = self.only, self.only and self.only.widened(step.phase for step in steps if step.differs)
        return self.only != before

    def chosen(self, steps: Iterable[Step]) -> list[Step]:
        """Those of a survey's steps that are about phases which the run carries out."""
        return [step for step in steps if self.takes(step.phase)]

    def note_others(self, steps: Iterable[Step]) -> None:
        """Note what differs in phases that the run does not carry out, of their steps."""
        self.others = tuple(step for step in steps if step.differs)

    def record_steps(self, *steps: Step) -> None:
        """Add what was done, just when it has ended; called from several threads."""
        now = self.at(time.monotonic())
        self._steps.extend(
            step if step.at is not None else replace(step, at=max(0.0, now - step.seconds)) for step in steps
        )

    def at(self, moment: float) -> float:
        """The seconds from the beginning of the run to a moment of `time.monotonic`."""
        return moment - self._begun

    def exclude(self, host: str, error: SlurmfabError) -> None:
        """Go on without a host, and tell the user; of one whose name is no host's, the line that has it."""
        if isinstance(error, NameUnknown) and (line := loading.line_naming(self._inventory, host)):
            error = NameUnknown(host, f"{self._inventory.path}:{line} names it, and {error.reason}")
        self._failed_hosts[host] = error if isinstance(error, HostError) else HostError(host, str(error))
        self.progress.host_lost(host, self._failed_hosts[host])

    def confirm(self, consequences: str, question: str) -> None:
        """Ask whether to go on, if the command asks and a user is there; SlurmfabError unless the answer is yes."""
        if not (self.options.asks and can_ask()):
            return
        self.progress.end()
        if consequences:
            write(consequences, sys.stderr)
        if not agrees(f"{question} [y/N] "):
            raise SlurmfabError("Nothing more was changed." if self._steps else "Nothing was changed.")

    def end_early(self, error: SlurmfabError) -> None:
        """Note the error that ends the run, which decides its exit code."""
        self._error_code = error.exit_code

    def change_reason(self, host: str, error: HostError) -> None:
        """Change the reason of a host that is excluded already."""
        self._failed_hosts[host] = error

    def update_lock(self, lock: Lock) -> None:
        """Go on with another lock; `save_lock` saves it."""
        self._inventory = replace(self._inventory, lock=lock)

    def save_lock(self) -> None:
        """Save the lock, as the command has it saved."""
        self.hooks.save_lock(self)

    def note_files(self, files: FilesRead) -> None:
        """Note the bytes of the cluster file and the lock that this run has written."""
        self._inventory = replace(self._inventory, files=files)

    def change_cluster(self, inventory: Inventory, hosts: tuple[str, ...]) -> None:
        """Go on with another cluster file and other hosts, as when nodes have left the cluster."""
        self._inventory, self._hosts = inventory, hosts

    @contextmanager
    def limited_to(self, hosts: tuple[str, ...]) -> Iterator[None]:
        """While in this context, the run is about some of its hosts only."""
        before, self._hosts = self._hosts, hosts
        try:
            yield
        finally:
            self._hosts = before

    def set_job_impact(self, impact: JobImpact) -> None:
        """Replace what is known of the impact on jobs and nodes."""
        self._job_impact = impact

    def set_other_hardware(self, nodes: tuple[str, ...]) -> None:
        """Report nodes whose hardware differs from the lock's, which no deployment changes."""
        self._other_hardware = nodes

    def before_change(self) -> None:
        """Begin the record, once, before anything may change a host; InputError if it cannot be written."""
        with self.record.mutex:
            if not self.record.is_begun:
                self.record.write(self)
                self.record.is_begun = True

    def update_record(self) -> None:
        """Write the record as of now, if begun; a full disk stops no run, whose end reports it."""
        if self.record.is_begun:
            with suppress(InputError):
                self.record.write(self)

    def require_controller(self) -> None:
        """Stop, by DeployFailed, if the controller is excluded; after a step, so that every failure is reported."""
        error = self._failed_hosts.get(self.controller)
        if error is None:
            return
        told = f"{self.controller} is the controller, so nothing else was started."
        if isinstance(error, HostKeyUnknown) and self.inventory.lock == Lock():
            path = shared_files.lock_path(self.inventory.path)
            told += (
                f" There is no {path}. If this cluster has been deployed before, do not accept keys: its lock has the "
                "right ones. Take it from git, from the machine on which the cluster was deployed, from a backup, or "
                f"from the copy of {self.controller}: {FAB} restore-lock --from-controller."
            )
        raise DeployFailed(told)
