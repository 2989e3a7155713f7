"""Acceptance: run the jobs, judge their figures as they come, keep them, return the exit code."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import HostError, InputError
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.accept import listing
from slurmfab.commands.accept.queue import GRACE_SECONDS, POLL_SECONDS, Attempt, NotSubmitted, Queue, results_of
from slurmfab.commands.accept.results import NOT_STARTED, Columns, Result, Verdict, columns
from slurmfab.commands.accept.wanted import PlannedRun, WantedJob, planned_runs, wanted_jobs
from slurmfab.commands.checks.hosts import CheckedHost, Opener, Shells, host_in, opener_of
from slurmfab.commands.quickcheck.running import nodes_of, require_slurmctld, sender_of, senders
from slurmfab.core.engine import session
from slurmfab.on_hosts.agent.nodes.user_jobs import WAITING

WAIT = 10  # default minutes that a job waits for its start
SHORTEST_WAIT = 10.0  # seconds that Slurm gets to start a job, also with `--wait 0`

MOST_REPEATS = 100
MOST_WAIT = 7 * 24 * 60  # bounds of the options


@dataclass(frozen=True)
class AcceptOptions:
    """The options of `fab accept`."""

    hosts: str = ""  # hostlist of compute nodes that may be used; empty for all
    only: str = ""  # names of jobs, separated by commas; empty for all
    user: str = "slurm"  # login name of who runs the jobs that name no user
    repeat: int = 1  # how often each job runs
    wait: int = WAIT  # minutes that a job waits for its start
    logs: str = ""  # directory on this machine for the output of jobs; empty for none

    def check(self) -> None:
        """Refuse numbers out of range, and a directory that is not there, by an InputError."""
        if not 1 <= self.repeat <= MOST_REPEATS:
            raise InputError(f"--repeat {self.repeat}: write a number from 1 to {MOST_REPEATS}.")
        if not 0 <= self.wait <= MOST_WAIT:
            raise InputError(f"--wait {self.wait}: write minutes from 0 to {MOST_WAIT}.")
        if self.logs and not Path(self.logs).is_dir():
            raise InputError(f"--logs {self.logs}: there is no such directory.")


def accept(cluster: str, options: AcceptOptions, junit: str, output: session.Output) -> int:
    """Run acceptance jobs and print results as they come, also into a JUnit file; returns `Verdict.exit_code`."""
    options.check()
    if junit:
        atomic_file.require_writable(Path(junit), "--junit")
    known = loading.load_named(cluster)
    stream = output.stream
    verdict = Acceptance(known, options, opener_of(output), lambda text: write(text, stream)).run()
    write(verdict.headline, stream)
    if junit:
        atomic_file.write(Path(junit), verdict.as_junit(), through_link=True)
    output.write_json(verdict)
    return verdict.exit_code


class Acceptance:
    """A run of acceptance jobs. `tell`: called with each line for people."""

    def __init__(self, known: Inventory, options: AcceptOptions, opener: Opener, tell: Callable[[str], None]) -> None:
        self.known = known
        self.options = options
        self.opener = opener
        self.tell = tell
        self.run_id = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"
        self.results: list[Result] = []
        self.entries: tuple[listing.Entry, ...] = ()
        self.table = Columns(0, 0)
        self.told = ""

    def run(self) -> Verdict:
        """Run all jobs, one name after the other; no job is left over in any case.

        Raises InputError if a script or a user is wrong, or the cluster has never been deployed. Raises HostError if
        none of the hosts from which jobs are submitted is reachable. Raises SlurmfabError if slurmctld does not answer.
        """
        begun = time.monotonic()
        nodes = nodes_of(self.known, self.options.hosts) if self.options.hosts else ()
        jobs = wanted_jobs(self.known, self.options.only, nodes, self.options.user)
        nodes_of(self.known, "")
        with self.opener(self.known, senders(self.known)) as shells:
            sender = sender_of(self.known, shells)
            queue = self.ready_queue(sender, jobs)
            controller = self.controller(shells)
            self.entries = listing.read_history(controller) if controller else ()
            plan = [(job, planned_runs(job, self.options.repeat)) for job in jobs]
            self.table = columns(jobs, [run for _, runs in plan for run in runs])
            self.tell(self.table.header())
            with queue.lifeline():
                for job, runs in plan:
                    for some in self.results_of_job(queue, job, runs):
                        self.take(some, controller)
        return Verdict(self.known.cluster.name, sender.name, tuple(self.results), time.monotonic() - begun)

    def ready_queue(self, sender: CheckedHost, jobs: Sequence[WantedJob]) -> Queue:
        """The queue, when Slurm answers and all users exist."""
        queue = Queue(self.known, sender, self.opener)
        queue.learn_people(jobs)
        require_slurmctld(self.known, sender)
        queue.learn_nodes()
        return queue

    def controller(self, shells: Shells) -> CheckedHost | None:
        """The host with the history; `None` if it cannot be reached, so that nothing is kept."""
        name = self.known.cluster.controller
        try:
            return host_in(shells, name)
        except HostError as error:
            self.tell(f"The history on {name} is not written: {error.reason}")
            return None

    def results_of_job(self, queue: Queue, job: WantedJob, runs: Sequence[PlannedRun]) -> Iterator[list[Result]]:
        """Run a job at all its places, and yield results as they come."""
        left, there = list(runs), list[Attempt]()
        begun = time.monotonic()
        while left or there:
            found: list[Result] = []
            for run in next_runs(left, there, job.at_once):
                left.remove(run)
                try:
                    there.append(queue.submit(run))
                except NotSubmitted as error:
                    found.append(Result(run, NOT_STARTED, words=str(error)))
            queue.look(there)
            ended = [one for one in there if one.has_ended or self.is_late(queue, one)]
            there = [one for one in there if one not in ended]
            found += [result for one in ended for result in results_of(queue, one, self.options.logs)]
            if found:
                yield found
            elif there:
                self.tell_waiting(there)
                time.sleep(min(POLL_SECONDS[1], POLL_SECONDS[0] + (time.monotonic() - begun) / 20))

    def is_late(self, queue: Queue, attempt: Attempt) -> bool:
        """Whether a job has waited too long, or Slurm has not ended it by its time limit; it is cancelled then."""
        now = time.monotonic()
        if attempt.started is None:
            power = self.known.cluster.power
            wakes = power.resume_timeout if power and attempt.job.state == "CONFIGURING" else 0
            is_late = now - attempt.sent > max(SHORTEST_WAIT, self.options.wait * 60) + wakes
        else:
            is_late = now - attempt.started > attempt.run.job.minutes * 60 + GRACE_SECONDS
            attempt.job = attempt.job._replace(state="TIMEOUT") if is_late else attempt.job
        if is_late:
            queue.cancel(attempt)
        return is_late

    def tell_waiting(self, there: Sequence[Attempt]) -> None:
        """Tell which jobs wait and why, whenever that has changed."""
        waits = [one for one in there if one.job.state in WAITING and time.monotonic() - one.sent > POLL_SECONDS[1]]
        reasons = sorted({one.reason for one in waits})
        text = f"{len(waits)} of {len(there)} jobs wait: {', '.join(reasons)}" if waits else ""
        if text and text != self.told:
            self.tell(text)
        self.told = text

    def take(self, found: Sequence[Result], controller: CheckedHost | None) -> None:
        """Compare results with the history on this controller, if it can be reached; show them, and add them there."""
        results = [listing.with_earlier(one, self.entries) for one in found]
        for one in results:
            self.tell(self.table.row(one))
        self.results += results
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        entries = [listing.entry_of(one, self.run_id, now) for one in results]
        if controller is not None:
            try:
                trouble = listing.add_history(controller, entries)
            except HostError as error:
                trouble = error.reason
            if trouble:
                self.tell(f"The history on {controller.name} was not written: {trouble}")


def next_runs(left: Sequence[PlannedRun], there: Sequence[Attempt], at_once: int) -> list[PlannedRun]:
    """The runs that are submitted now: one at each place, so that none waits for another of its own job."""
    taken = {one.run.place for one in there}
    found: dict[str, PlannedRun] = {}
    for run in left:
        if run.place not in taken:
            found.setdefault(run.place, run)
    return list(found.values())[: at_once - len(there)]
