"""Check of the users' partitions: each runs a small job of a user who may use it, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pytest

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Partition
from slurmfab.cluster.inventory.own_jobs import PRIVILEGED, Place, names, places_of
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.hosts import person
from slurmfab.commands.checks.plugin import explained
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Outcome
from slurmfab.commands.checks.slurm import WAIT_SECONDS
from slurmfab.commands.checks.user_jobs import states, submit
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.commands.quickcheck.lines import Line
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.nodes.user_jobs import BAD_ENDS, Person

CHECK = "partitions"
POLL_SECONDS = 0.3

SETTLED_SECONDS = 3.0
"""Seconds after which a reason counts that is not about other jobs: slurmctld looks at a new job within a second."""

MOST_TRIES = 6  # how many ways of using one partition are tried (user, account, QOS) until Slurm accepts a job
CLOSED = ("DOWN", "DRAIN", "INACTIVE")  # states of a partition that starts no jobs (slurm.conf(5), State)

TRY_AS = f"`{FAB} quickcheck --user NAME` tries the partitions with jobs of a user"

OF_GROUPS = "group not permitted"
"""Slurm's error for a user who is in no group of AllowGroups (slurm_errno.h, ESLURM_USER_ID_MISSING and others)."""


@dataclass(frozen=True)
class Trial:
    """A job in a partition."""

    partition: Partition
    nodes: tuple[str, ...]  # the partition's nodes on which it may run
    user: str  # login name of the job's user
    number: str
    begun: float  # `time.monotonic()` when it was submitted

    @property
    def title(self) -> str:
        """Partition, job and user, as in `gpu: job 12 of ann`."""
        return f"{self.partition.name}: job {self.number} of {self.user}"


def partitions(bench: Bench) -> Iterator[Line]:
    """Submit a job to each partition, wait for all of them, and yield a line for each partition."""
    if bench.who.name in PRIVILEGED and not bench.cluster.users:
        yield Line(CHECK, "", NOT_RUN, f"the cluster file has no users; {TRY_AS}.")
        return
    trials: list[Trial] = []
    for partition in bench.cluster.partitions:
        begun = time.monotonic()
        nodes = tuple(name for name in bench.nodes if partition.nodes == "ALL" or name in partition.nodes)
        if bench.is_each and not nodes:
            continue
        try:
            trials.append(submitted(bench, partition, nodes))
        except pytest.skip.Exception as skipped:
            yield Line(CHECK, "", NOT_RUN, f"{partition.name}: {skipped.msg}", "", time.monotonic() - begun)
        except (AssertionError, HostError) as error:
            cause, repair = explained(error, bench.sender.name)
            yield Line(CHECK, "", FAILED, f"{partition.name}: {cause}", repair, time.monotonic() - begun)
    yield from results(bench, trials)


def submitted(bench: Bench, partition: Partition, nodes: tuple[str, ...]) -> Trial:
    """Submit a job to a partition as the first user whose job Slurm accepts.

    Raises:
        AssertionError: Slurm rejects the jobs of users who may use the partition by the cluster file.
        pytest.skip.Exception: the partition is closed on purpose, has no nodes or no known user, or has no room.
    """
    need_open(partition, nodes)
    bench.free(nodes)
    bench.slurm.has_run_jobs = True
    always = (f"--job-name={bench.slurm.job_name}", "--time=1", "--chdir=/tmp", "--output=/dev/null", "--wrap=true",
              bench.slurm.memory_option(nodes))  # fmt: skip
    tries = ((who, place, way) for who, place in users_of(bench, partition) for way in ways(bench, partition, nodes))
    refusals = []
    for who, place, options in islice(tries, MOST_TRIES):
        begun = time.monotonic()
        number, refusal = submit(bench.sender, who, (*always, *place.options, *options))
        if number:
            return Trial(partition, nodes, who.name, number, begun)
        refusals.append((who.name, refusal))
    raise AssertionError(refusal_of(partition, refusals))


def need_open(partition: Partition, nodes: Sequence[str]) -> None:
    """Skip the check of a partition that is closed, kept for root and reservations, or without nodes."""
    state = setting(partition.settings, "State").upper()
    if state in CLOSED:
        pytest.skip(f"it is {state} in the cluster file.")
    for key in ("RootOnly", "ReqResv"):
        if setting(partition.settings, key).upper() == "YES":
            pytest.skip(f"it has {key}=YES in the cluster file.")
    if not nodes:
        pytest.skip("it has no nodes.")


def users_of(bench: Bench, partition: Partition) -> Iterator[tuple[Person, Place]]:
    """Yield users of the submitting host who may use a partition, with their accounts; skips if there is none."""
    chosen = [one.name for one in bench.cluster.users] if bench.who.name in PRIVILEGED else [bench.who.name]
    needs_account = bench.cluster.has_accounts and bench.who.name in PRIVILEGED
    with_account = {one.name for one in bench.cluster.users if one.accounts}
    known = [name for name in chosen if name in with_account or not needs_account]
    places = [(name, place) for name in known for place in places_of(bench.cluster, name, partition)]
    count = 0
    for name, place in places[:MOST_TRIES]:
        try:
            who = person(bench.sender, name)
        except InputError:
            continue
        count += 1
        yield who, place
    if not count:
        whose = f"{bench.who.name} is not" if bench.who.name not in PRIVILEGED else "no user of the cluster file is"
        pytest.skip(f"{whose} known to be allowed there; {TRY_AS}.")


def ways(bench: Bench, partition: Partition, nodes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield options of sbatch for the smallest job: as it is, with a QOS of AllowQos, and with a GPU if there are any.

    A partition may be for some QOS only, and its own QOS may require a GPU (MinTRESPerJob).
    """
    count = setting(partition.settings, "MinNodes")
    number = count if count.isdecimal() and int(count) > 1 else "1"
    place = (f"--nodelist={bench.free(nodes)[0]}",) if bench.is_each and number == "1" else ()
    size = (f"--nodes={number}", f"--ntasks={number}", *place)
    yield size
    for qos in sorted(names(partition, "AllowQos")):
        yield (*size, f"--qos={qos}")
    if any("gpu" in record.get("Gres", "") for name, record in bench.records().items() if name in nodes):
        yield (*size, "--gres=gpu:1")


def refusal_of(partition: Partition, refusals: Sequence[tuple[str, str]]) -> str:
    """What is said of rejected jobs; skips for a partition of groups whom the cluster file does not name."""
    user, first = refusals[0]
    if all(OF_GROUPS in refusal for _, refusal in refusals):
        pytest.skip(f"no user of the cluster file is in its AllowGroups (Slurm about {user}: {first}).")
    repair = node_state.repair_of(partition.name, first)
    if repair == node_state.LOGS:
        repair = f"compare AllowAccounts, AllowQos and QOS of the partition with `{FAB} status --user {user}`"
    return f"Slurm rejects jobs of {user}: {first}. Repair: {repair}"


def results(bench: Bench, trials: Sequence[Trial]) -> Iterator[Line]:
    """Wait for the jobs, and yield the line of each as soon as it is known; jobs that wait too long are cancelled."""
    left = list(trials)
    while left:
        found = states(bench.sender, [trial.number for trial in left]) or {}
        for trial in tuple(left):
            line = judged(bench, trial, found.get(trial.number, JobState("GONE")))
            if line is not None:
                left.remove(trial)
                yield line
        if left:
            time.sleep(POLL_SECONDS)
    bench.slurm.cancel()


def judged(bench: Bench, trial: Trial, job: JobState) -> Line | None:
    """The line about a job; `None` while it is too early to tell."""
    passed, reason = time.monotonic() - trial.begun, node_state.real_reason(job.reason)

    def line(outcome: Outcome, words: str, repair: str = "") -> Line:
        return Line(CHECK, job.nodes, outcome, f"{trial.title} {words}", repair, passed)

    if job.state == "COMPLETED":
        return line(PASSED, "ran")
    if job.state in BAD_ENDS:
        where = f"/var/log/slurmd/slurmd.log on {job.nodes}" if job.nodes else "/var/log/slurm/slurmctld.log"
        return line(FAILED, f"is {job.state}.", f"see {where}")
    is_late = passed > min(bench.seconds, WAIT_SECONDS)
    if node_state.is_limit(reason) and (is_late or passed > SETTLED_SECONDS):
        return line(NOT_RUN, f"waits for a limit. Slurm's reason: {reason}.")
    if node_state.is_for_nodes(reason) and is_late:
        why = reason or f"none, and the job is {job.state}"
        busy = bool(bench.slurm.others(trial.nodes, reason))
        return line(NOT_RUN if busy else FAILED, f"did not run within {passed:.0f} s. Slurm's reason: {why}.",
                    "" if busy else node_state.LOGS)  # fmt: skip
    if not node_state.is_for_nodes(reason) and passed > SETTLED_SECONDS:
        repair = node_state.repair_of(trial.partition.name, reason)
        return line(FAILED, f"does not start. Slurm's reason: {reason}.", repair)
    return None
