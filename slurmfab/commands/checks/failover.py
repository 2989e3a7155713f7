"""Test of a real takeover by the backup controller and back: running jobs and Slurm's records of them must survive.

Each step is a check with a result of its own, and runs only if all steps before it passed. In every case, the primary
controller is started again at the end, and the test's jobs are cancelled.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping

from slurmfab.base.errors import HostError, InputError, SlurmfabError, Unreachable
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.own_jobs import partition_of_own_jobs
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.hosts import CheckedHost, Opener, host_in, line_of
from slurmfab.commands.checks.plugin import explained
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Result, Verdict
from slurmfab.commands.checks.user_jobs import asked, state, submit
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.nodes.user_jobs import ANSWER_SECONDS, BAD_ENDS, Person

GROUP = "failover"
POLL_SECONDS = 0.3
JOB_SECONDS = 120.0
"""Seconds in which a small job must start, or its end must be reported: a controller that has just started waits for
its nodes to register."""

TAKEOVER_SECONDS = 120
"""Seconds; Slurm's default for SlurmctldTimeout (slurm.conf(5)), after which a backup takes over by itself."""

RUNNING = frozenset({"RUNNING", "COMPLETING", "COMPLETED"})  # states of a job that runs or has completed

SLURM = Person("slurm", "/")

WAITS_FOR_SIGNAL = "trap 'exit 0' USR1; sleep 600 & wait"
"""Script of a job that ends with exit code 0 when it gets SIGUSR1."""


def verify(
    known: Inventory,
    *,
    opener: Opener,
    heard: Callable[[tuple[Result, ...]], None] = lambda _: None,
    limit: float = math.inf,
) -> Verdict:
    """Try a takeover by the backup and back; `heard` gets each step's result; `limit` is seconds of each wait.

    Raises InputError without a backup controller; HostError if a controller is unreachable, no daemon stopped then.
    """
    cluster = known.cluster
    if len(cluster.controllers) < 2:
        raise InputError(
            f"--failover: {known.path} names one controller, {cluster.controller}. "
            f"A second one under controllers, and state_directory, make a backup; then {FAB} deploy."
        )
    begun = time.monotonic()
    results = []
    with opener(known, cluster.controllers) as shells:
        primary, backup = (host_in(shells, host) for host in cluster.controllers)
        proof = Proof(cluster, primary, backup, limit)
        try:
            for result in proof.results():
                results.append(result)
                heard((result,))
        finally:
            proof.clean_up()
    return Verdict(cluster.name, tuple(results), time.monotonic() - begun)


class Proof:
    """The steps of one takeover and back. `limit`: upper limit in seconds of each wait."""

    def __init__(self, cluster: Cluster, primary: CheckedHost, backup: CheckedHost, limit: float = math.inf) -> None:
        self.cluster = cluster
        self.limit = limit
        self.primary = primary
        self.backup = backup
        self.job_name = f"slurmfab-failover-{secrets.token_hex(3)}"
        self.before: Mapping[str, JobState] = {}
        self.nodes: frozenset[str] = frozenset()
        self.long_job = ""
        self.new_job = ""
        self.has_taken_over = False

    def results(self) -> Iterator[Result]:
        """Run the steps in order and yield each result; after a failed step, the others are `not run`."""
        failed = ""
        for step, host in (
            (self.both_controllers_answer, self.primary),
            (self.job_runs_before, self.primary),
            (self.backup_takes_over, self.backup),
            (self.jobs_go_on, self.backup),
            (self.new_job_runs_on_the_backup, self.backup),
            (self.primary_takes_back, self.primary),
            (self.job_from_before_ends_well, self.primary),
            (self.history_goes_on, self.primary),
            (self.nodes_take_jobs_again, self.primary),
        ):
            name, title = step.__name__, (step.__doc__ or "").splitlines()[0].rstrip(".")
            title = title[0].lower() + title[1:]
            if failed:
                yield Result(GROUP, name, title, host.name, NOT_RUN, cause=f"this has failed: {failed}.")
                continue
            begun = time.monotonic()
            try:
                step()
                yield Result(GROUP, name, title, host.name, PASSED, seconds=time.monotonic() - begun)
            except (AssertionError, HostError) as error:
                failed = title
                cause, repair = explained(error, host.name)
                yield Result(
                    GROUP,
                    name,
                    title,
                    host.name,
                    FAILED,
                    cause,
                    repair,
                    time.monotonic() - begun,
                    isinstance(error, Unreachable),
                )

    def both_controllers_answer(self) -> None:
        """The primary is in charge, and the backup stands by."""
        up = answering(self.primary)
        asleep = [host.name for host, role in ((self.primary, "primary"), (self.backup, "backup")) if role not in up]
        assert not asleep, f"slurmctld does not answer on {' and '.join(asleep)}. Repair: {FAB} deploy"

    def job_runs_before(self) -> None:
        """A job runs before the takeover."""
        self.long_job = self.submit(self.primary, WAITS_FOR_SIGNAL)
        self.wait_for_job(self.primary, self.long_job, {"RUNNING"})
        self.nodes = ready_nodes(self.primary)
        lines = self.primary.ask(line_of(commands.ids_of_jobs("--states=RUNNING"))).split()
        self.before = {number: state(self.primary, number) for number in lines}

    def backup_takes_over(self) -> None:
        """The backup takes over when it is told to."""
        self.has_taken_over = True
        self.backup.ask(line_of(commands.TAKEOVER), seconds=self.patience)
        self.wait_until(
            lambda: answering(self.backup) == {"backup"} and is_served(self.backup),
            f"the backup is not in charge {self.patience:.0f} s after `scontrol takeover`",
        )

    def jobs_go_on(self) -> None:
        """Jobs that ran before the takeover run on."""
        now = {number: state(self.backup, number) for number in self.before}
        lost = [
            f"{number} is {one.state}"
            for number, one in now.items()
            if one.state not in RUNNING or one.start != self.before[number].start
        ]
        assert not lost, f"after the takeover, jobs that ran before do not run on: {', '.join(lost[:5])}"

    def new_job_runs_on_the_backup(self) -> None:
        """A new job runs while the backup is in charge."""
        self.new_job = self.submit(self.backup, "true")
        self.wait_for_job(self.backup, self.new_job, {"COMPLETED"})
        assert int(self.new_job) > int(self.long_job), f"job numbers went back from {self.long_job} to {self.new_job}"

    def primary_takes_back(self) -> None:
        """The primary takes back control when it is started."""
        self.primary.ask("systemctl start slurmctld", seconds=self.patience)
        self.wait_until(
            lambda: answering(self.primary) == {"primary", "backup"} and is_served(self.primary),
            f"the primary is not in charge {self.patience:.0f} s after its start, or the backup is gone",
        )

    def job_from_before_ends_well(self) -> None:
        """The job from before the takeover takes a signal and ends well."""
        now, before = state(self.primary, self.long_job), self.before[self.long_job]
        assert now._replace(reason=before.reason) == before, "the job does not run on as it did"
        self.primary.ask(line_of(commands.signal_batch(self.long_job, "USR1")))
        self.wait_for_job(self.primary, self.long_job, {"COMPLETED"})

    def history_goes_on(self) -> None:
        """The primary knows the backup's jobs, and counts on."""
        seen = state(self.primary, self.new_job).state
        assert seen == "COMPLETED", f"job {self.new_job}, which ran while the backup was in charge, is {seen}"
        number = self.submit(self.primary, "true")
        assert int(number) > int(self.new_job), f"job numbers went back from {self.new_job} to {number}"
        self.wait_for_job(self.primary, number, {"COMPLETED"})

    def nodes_take_jobs_again(self) -> None:
        """All nodes that took jobs before take jobs again."""
        self.wait_until(
            lambda: self.nodes <= ready_nodes(self.primary),
            "not every node that took jobs before takes jobs again; `sinfo -R` says why",
        )

    def clean_up(self) -> None:
        """Start the primary if this test stopped it, and cancel the test's jobs; errors are ignored."""
        for host, command in (
            (self.primary, "systemctl start slurmctld" if self.has_taken_over else "true"),
            (self.primary, f"timeout {JOB_SECONDS:.0f} {line_of(commands.cancel_named(self.job_name))}"),
        ):
            with contextlib.suppress(SlurmfabError):
                host.run(command, seconds=JOB_SECONDS * 2)

    @property
    def patience(self) -> float:
        """Seconds that a change of controllers may take: SlurmctldTimeout and 30 more."""
        timeout = setting(self.cluster.slurm_conf, "SlurmctldTimeout")
        return (int(timeout) if timeout.isdecimal() else TAKEOVER_SECONDS) + 30.0

    def submit(self, host: CheckedHost, script: str) -> str:
        """Submit a small job as the slurm user, with a wrapped script, and return its job ID."""
        partition = partition_of_own_jobs(self.cluster, ())
        options = (f"--job-name={self.job_name}", "--time=15", "--chdir=/tmp", "--output=/dev/null", "--ntasks=1",
                   "--mem=50M", f"--partition={partition}", f"--wrap={script}")  # fmt: skip
        number, complaint = submit(host, SLURM, options, seconds=int(JOB_SECONDS))
        assert number, f"sbatch fails on {host.name}: {complaint}"
        return number

    def wait_for_job(self, host: CheckedHost, number: str, states: set[str]) -> None:
        """Wait until a job has one of these states (`COMPLETED` with `0:0`), by a controller; or AssertionError."""
        self.wait_until(
            lambda: state(host, number).state in states | BAD_ENDS,
            lambda: (
                f"job {number} is not {' or '.join(sorted(states))} within {JOB_SECONDS:.0f} s. Slurm's reason: "
                + (node_state.real_reason(state(host, number).reason) or "none")
            ),
            JOB_SECONDS,
        )
        found = state(host, number)
        is_well = found.state in states and (found.state != "COMPLETED" or found.code == "0:0")
        assert is_well, f"job {number} is {found.state} with exit code {found.code}. Repair: see slurmd.log on its node"

    def wait_until(self, condition: Callable[[], bool], complaint: str | Callable[[], str], seconds: float = 0) -> None:
        """Wait until a condition, checked every `POLL_SECONDS`, is true; AssertionError with the complaint after that.

        `complaint`: the text, or what asks for it then. `seconds`: 0 for `patience`.
        """
        deadline = time.monotonic() + min(self.limit, seconds or self.patience)
        while not condition():
            if time.monotonic() >= deadline:
                words = complaint if isinstance(complaint, str) else complaint()
                logs = f"/var/log/slurm/slurmctld.log on {self.primary.name} and {self.backup.name}"
                raise AssertionError(f"{words}. Repair: see {logs}")
            time.sleep(POLL_SECONDS)


def answering(host: CheckedHost) -> set[str]:
    """The roles of the controllers that answer `scontrol ping` on a host: any of `primary` and `backup`."""
    shown = asked(host, commands.PING, ANSWER_SECONDS * 2).stdout
    return {role.rstrip("0123456789") for role, _, is_up in commands.controllers(shown) if is_up}


def ready_nodes(host: CheckedHost) -> frozenset[str]:
    """The responding nodes that run jobs or can take some."""
    names = commands.names_of_nodes("--responding", "--states=idle,mixed,allocated,completing")
    return frozenset(asked(host, names).stdout.split())


def is_served(host: CheckedHost) -> bool:
    """Whether a controller is in charge: one on standby answers pings, but not squeue."""
    return bool(asked(host, commands.ids_of_jobs()).rc == 0)
