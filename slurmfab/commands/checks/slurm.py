"""Queries of Slurm on its controller, and test jobs, which have a time limit and are cancelled at the end."""

from __future__ import annotations

import math
import re
import secrets
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.own_jobs import Place, ordinary_users, place_for
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.applies import DoesNotApply, Seen
from slurmfab.commands.checks.hosts import CheckedHost, last_words, line_of, person
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.nodes import ended_jobs, lost_jobs
from slurmfab.on_hosts.agent.nodes.states import record, records
from slurmfab.on_hosts.agent.nodes.user_jobs import SMALL_MEMORY, Person, memory_option

WAIT_SECONDS = 45
"""Seconds that a test job may wait for resources: where users' jobs wait, the backfill scheduler starts it, and that
looks at the queue every 30 s (`bf_interval` in slurm.conf)."""

ALWAYS = ("--input=none", "--mpi=none", "--chdir=/tmp")
"""Options of srun for every test job; `Slurm.run` adds the time limits."""

SMALL = ("--ntasks-per-node=1", "--cpus-per-task=1")
"""Options of srun for every test job: one task with one CPU on each node."""

LIMIT_SECONDS = 5
"""How often is looked whether a limit holds a test job, which then is cancelled: no wait would start most of them."""

WATCHED = """\
cd /tmp || exit 1
{command} & started=$!
(while sleep {seconds} && kill -0 "$started"; do {limited} | xargs -r scancel; done) >/dev/null 2>&1 & watching=$!
wait "$started"; code=$?; kill "$watching" 2>/dev/null; exit "$code"
"""
"""Runs a command that runs jobs, and ends with its exit code; jobs that a limit holds are cancelled."""

JOB_SECONDS = 90  # time limit in seconds of a test job, waiting included
TURN_MINUTES = 10  # after which the reservation of test jobs is over, also if nobody is left to delete it
AS_SLURM = ("runuser", "-u", "slurm", "--")  # command prefix that runs srun as the slurm user
QUEUED = "queued and waiting for resources"  # srun's words about a job that did not start at once

WARNING = re.compile(r"\blevel=(warning|info|debug)\b|^\W*(warning|warn|info|note)\b", re.IGNORECASE)
"""How a line of a program begins that is no error, as podman's about control groups of version 1."""

POLICY = "Job violates accounting/QOS policy"
"""Slurm's error for a job that a limit of its user can never let start (slurm_errno.h, ESLURM_ACCOUNTING_POLICY)."""

NOT_STARTED = "not started"  # the sign of a check whose job Slurm has not run

JOB_LOGS = "Repair: see /var/log/slurmd/slurmd.log there"

TELL = (
    'cpus=$(taskset --cpu-list "0-$(($(getconf _NPROCESSORS_CONF) - 1))" nproc); '
    "ignored=$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status); "
    'echo "job on $SLURMD_NODENAME: $(uname -n) $ignored $cpus"'
)
"""Prints what a job's programs see of its node, in one line, so that those of several nodes do not mix; for the CPUs,
it asks for all of them."""

LIVING = (
    "cut --delimiter=. --fields=1 /proc/uptime; "
    r"ps -U 0 -o args= | sed -n 's/^slurmstepd: \[\([0-9]*\)[.+_].*/\1/p'; "
    "for child in $(cat /proc/$(systemctl show --property=MainPID --value slurmd)/task/*/children 2>/dev/null); do "
    r"""tr '\0' '\n' <"/proc/$child/environ" 2>/dev/null | sed -n 's/^SLURM_JOB_ID=//p'; done"""
)
"""Prints how long a node is up, and the numbers of the jobs that have a step daemon or a prolog there."""

TOLD = re.compile(r"^job on (\S+): (\S+) ([0-9a-f]+) (\d+)$", re.MULTILINE)

SOON = 5
"""Seconds that the job on all nodes may wait, and then run, more for hundreds of nodes; where it does not, as where
the prolog of one hangs, each node has a job of its own."""

BUSY = ("nodes are busy", "immediate", "Job/step already completing", "Priority", "Resources")
"""Words in srun's errors if other jobs use the resources (srun(1), --immediate)."""


@dataclass(frozen=True)
class Answer:
    """What a small job on a node tells."""

    hostname: str
    ignored: int  # the signals that its programs ignore, a bit for each
    cpus: int  # how many CPUs it can use


class Slurm:
    """Slurm's commands on the controller, or another host that has them.

    `sender`: the prefix that runs a command as the submitting user. `seconds`: limit of each job, with its waiting.
    """

    def __init__(
        self,
        controller: CheckedHost,
        cluster: Cluster,
        *,
        user: str = "slurm",
        sender: Sequence[str] = AS_SLURM,
        seconds: float = JOB_SECONDS,
    ) -> None:
        self.controller = controller
        self.cluster = cluster
        self.user = user
        self.sender = tuple(sender)
        self.seconds = seconds
        self.wait_seconds = min(WAIT_SECONDS, int(seconds))
        self.job_name = f"slurmfab-check-{secrets.token_hex(3)}"
        self.has_run_jobs = False
        self.busy: dict[str, str] = {}
        self.turn: tuple[str, ...] | None = None  # see `own_turn`; `None` as long as nobody has asked for it
        self.asking = threading.Lock()
        self.sound_nodes: Callable[[], Sequence[str]] = tuple  # those that may have a job by what was checked so far
        self.told: dict[str, Answer] = {}  # by node, of its own job
        self.telling = threading.Lock()
        self.ran_together: dict[str, CommandResult | None] = {}  # by command, of jobs on all nodes

    @cached_property
    def answers(self) -> bool:
        """Whether slurmctld answers; asked once, because each command waits half a minute for one that does not."""
        return ping(self.controller).endswith("is UP")

    def node(self, name: str) -> Mapping[str, str]:
        """Slurm's present record of a node: the fields of `scontrol show node` by name."""
        return record(self.controller.ask(line_of(commands.show_nodes(name))))

    def node_as_found(self, name: str) -> Mapping[str, str]:
        """Slurm's record of a node from one query for all nodes, cached for the whole run."""
        # For an unknown node, the query of that node alone fails with Slurm's own error.
        return self.nodes_as_found.get(name) or self.node(name)

    @cached_property
    def nodes_as_found(self) -> Mapping[str, Mapping[str, str]]:
        """Slurm's records of all nodes by name, cached for the whole run."""
        shown = self.controller.as_found.ask(line_of(commands.show_nodes()))
        return {one["NodeName"]: one for one in records(shown)}

    @cached_property
    def nodes_at_end(self) -> Mapping[str, Mapping[str, str]]:
        """Slurm's records of all nodes by name, from one query when the other checks have run."""
        return self.nodes_now()

    def nodes_now(self) -> Mapping[str, Mapping[str, str]]:
        """Slurm's present records of all nodes by name."""
        return {one["NodeName"]: one for one in records(self.controller.ask(line_of(commands.show_nodes())))}

    def partition_states(self) -> dict[str, str]:
        """The states of partitions in slurmctld, such as `up` and `down`, by name."""
        lines = self.controller.ask(line_of(commands.PARTITION_STATES)).splitlines()
        return {name: state for name, _, state in (line.strip().rpartition("|") for line in lines)}

    def configuration(self) -> dict[str, str]:
        """The configuration that slurmctld has loaded, by key in lower case, with the keys of cgroup.conf."""
        lines = self.controller.as_found.ask(line_of(commands.SHOW_CONFIG)).splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        return {key.strip().lower(): value.strip() for key, _, value in pairs}

    def need_limits(self, key: str) -> None:
        """Leave out the check, by DoesNotApply, if Slurm does not enforce a limit, such as `ConstrainRAMSpace`."""
        configuration = self.configuration()
        if "task/cgroup" not in configuration.get("taskplugin", ""):
            raise DoesNotApply("slurm.conf has no TaskPlugin=task/cgroup, so jobs are not held to anything")
        if configuration.get(key.lower(), "no") != "yes":
            raise DoesNotApply(f"cgroup.conf says {key}=no")

    def run(
        self,
        nodes: Sequence[str],
        command: str,
        *,
        memory: int = SMALL_MEMORY,
        options: Sequence[str] = (),
        under: Sequence[str] = (),
    ) -> CommandResult:
        """Run a command in a job with a task on each of these nodes, and return srun's result.

        `memory`: MiB per node. `under`: a command on the controller around srun. Raises AssertionError if Slurm did not
        run it; skips if nodes take no jobs now, or have no room.
        """
        for node in nodes:
            self.need_room(node)
        done = self.submitted(nodes, command, memory=memory, options=options, under=under)
        if done is None:
            pytest.skip(f"no partition that is UP by the cluster file has all of {fold(nodes)}.")
        self.explain(nodes, done)
        return done

    def submitted(
        self,
        nodes: Sequence[str],
        command: str,
        *,
        memory: int = SMALL_MEMORY,
        options: Sequence[str] = (),
        under: Sequence[str] = (),
        at_once: bool = False,
    ) -> CommandResult | None:
        """The result of srun, whatever it is; `None` if no partition has all these nodes.

        `at_once`: whether it ends if it has not run within some seconds. The other arguments are those of `run`.
        """
        wait, seconds = (SOON, SOON + SOON * (1 + len(nodes) / 100)) if at_once else (self.wait_seconds, self.seconds)
        place = self.place(nodes)
        if place is None:
            return None
        self.has_run_jobs = True
        count = len(nodes)
        there = [*place.options, *self.own_turn(), f"--nodelist={fold(nodes)}", f"--nodes={count}", f"--ntasks={count}"]
        size = [*SMALL, self.memory_option(nodes, memory), *options]
        bounds = (f"--immediate={wait}", f"--time={max(2, math.ceil(self.seconds / 60))}")
        command_line = ["srun", *ALWAYS, *bounds, f"--job-name={self.job_name}", *there, *size, "sh", "-c", command]
        line = f"timeout --kill-after=5 {seconds:.0f} {shlex.join([*under, *self.sender, *command_line])}"
        limited = node_state.limited(line_of(commands.waiting_named(self.job_name)))
        script = WATCHED.format(command=line, seconds=LIMIT_SECONDS, limited=limited)
        return self.controller.run(script, seconds=seconds + 10)

    def told_by(self, node: str) -> Answer:
        """What a small job on a node tells: the one on all nodes, where it ran, else one of its own.

        Raises AssertionError if Slurm did not run it; skips if the node takes no jobs now, or has no room.
        """
        told = self.on_all.get(node) or self.told.get(node)
        if not told:
            found = self.told_by_all((node,))
            assert node in found, f"the job printed nothing of its node. {JOB_LOGS}"
            told = self.told[node] = found[node]
        return told

    def told_by_all(self, nodes: Sequence[str]) -> Mapping[str, Answer]:
        """What one job on all these nodes tells, by node; see `told_by`."""
        if {*nodes} <= {*self.on_all}:
            return self.on_all
        done = self.run(nodes, TELL)
        there = f" on {fold(nodes)}" if len(nodes) > 1 else ""
        assert done.rc == 0, f"the job{there} failed: {job_words(done)}. {JOB_LOGS}"
        return told_in(done.stdout)

    @cached_property
    def on_all(self) -> Mapping[str, Answer]:
        """What one job on all sound nodes told; see `together`."""
        done = self.together(TELL)
        return told_in(done.stdout) if done else {}

    def together(
        self,
        command: str,
        *,
        memory: int = SMALL_MEMORY,
        may_run: Callable[[str], bool] = lambda _node: True,
        before: Callable[[Sequence[str]], object] = lambda _nodes: None,
    ) -> CommandResult | None:
        """The result of one job on all sound nodes that have room, which runs a command once for all who ask.

        `None` if users wait for room, or there is no room on two nodes. `may_run`: whether a node may take part.
        `before`: called with the nodes before the job.
        """
        with self.telling:
            if command not in self.ran_together:
                known = self.nodes_now()
                ready = [
                    name
                    for name in self.sound_nodes()
                    if may_run(name)
                    and node_state.is_ready(one := known.get(name, {}))
                    and one.get("CPUAlloc") != one.get("CPUTot")
                ]
                self.ran_together[command] = None
                if len(ready) > 1 and not self.own_turn():
                    before(ready)
                    self.ran_together[command] = self.submitted(ready, command, memory=memory, at_once=True)
            return self.ran_together[command]

    @cached_property
    def running_jobs(self) -> Sequence[lost_jobs.Job]:
        """The jobs that Slurm called running when this was first asked for."""
        return self.running_now()

    def running_now(self) -> list[lost_jobs.Job]:
        """The jobs that Slurm calls running now."""
        return lost_jobs.jobs_in(self.controller.ask(f"SLURM_TIME_FORMAT=%s {line_of(lost_jobs.RUNNING)}"))

    def lost_on(self, node: CheckedHost) -> list[lost_jobs.Lost]:
        """The jobs that Slurm calls running on a node with their script, and of which nothing runs there."""
        if not any(job.host == node.name for job in self.running_jobs):
            return []
        flags = self.configuration().get("prologflags", "").lower()
        now = int(self.controller.ask("date +%s"))
        uptime, *numbers = map(int, node.ask(LIVING).split())
        looked = {node.name: lost_jobs.Looked(now, frozenset(numbers))}
        boots = {node.name: float(now - uptime)}

        def judged(jobs: Sequence[lost_jobs.Job]) -> list[lost_jobs.Lost]:
            mine = [job for job in jobs if job.host == node.name]
            return lost_jobs.lost(mine, now, looked, boots, has_extern="contain" in flags or "x11" in flags)

        # One of them may have ended before its node was asked.
        return judged(self.running_now()) if judged(self.running_jobs) else []

    @cached_property
    def ended_as_found(self) -> Sequence[ended_jobs.Ended]:
        """The same as `ended_jobs`, from one query for all nodes."""
        return self.ended_jobs()

    def ended_jobs(self) -> list[ended_jobs.Ended]:
        """The jobs that ended more than a minute ago and still hold nodes."""
        shown = self.controller.ask(f"date +%s; SLURM_TIME_FORMAT=%s {line_of(commands.COMPLETING_JOBS)}")
        now, _, jobs = shown.partition("\n")
        return ended_jobs.late(jobs, float(now))

    def open_records(self) -> list[lost_jobs.Open]:
        """The records of jobs that slurmdbd has as not ended and slurmctld does not know; empty where it is silent."""
        table = commands.open_records()
        done = self.controller.run(f"SLURM_TIME_FORMAT=%s timeout 30 {line_of(table.argv)}")
        rows = table.rows(done.stdout) if done.rc == 0 else []
        if not rows:
            return []
        known = lost_jobs.known_in(self.controller.ask(f"SLURM_TIME_FORMAT=%s {line_of(lost_jobs.KNOWN)}"))
        return lost_jobs.unknown(rows, known, int(self.controller.ask("date +%s")))

    @cached_property
    def ordinary(self) -> Person | None:
        """The user whose job stands for those of all users; `None` if there is none who may run jobs."""
        for name in ordinary_users(self.cluster):
            with suppress(InputError):
                return person(self.controller, name)
        return None

    def own_turn(self) -> tuple[str, ...]:
        """The option of srun that lets test jobs pass jobs of users that wait; empty if none waits, or Slurm refuses.

        Resources that these jobs have stay theirs, and a core is kept from others until the checks end.
        """
        with self.asking:
            if self.turn is None:
                self.turn = self.reserved()
            return self.turn

    def reserved(self) -> tuple[str, ...]:
        """Reserve a core for test jobs if jobs of users wait; the option of srun for it, if there is one."""
        if self.sender != AS_SLURM or not self.others_that("--states=PENDING"):
            return ()
        free = self.controller.run(line_of(commands.names_of_nodes("--states=idle,mixed"))).stdout.split()
        if not free:
            return ()
        users = ",".join((self.user, *((self.ordinary.name,) if self.ordinary else ())))
        made = self.controller.run(line_of(commands.reserve_turn(self.job_name, users, free[0], TURN_MINUTES)))
        return () if made.rc else (f"--reservation={self.job_name}",)

    def memory_option(self, nodes: Sequence[str], memory: int = SMALL_MEMORY) -> str:
        """The option of a job's memory on each node: MiB, up to what Slurm knows; 1 without RealMemory."""
        return memory_option(map(self.node_as_found, nodes), memory)

    def place(self, nodes: Sequence[str]) -> Place | None:
        """The partition and account of a job on these nodes; `None` if no partition has them all."""
        return place_for(self.cluster, self.user, tuple(nodes))

    def free_node(self) -> str:
        """The name of a compute node that has room for a small job; skips the check if no node has."""
        free = set(self.controller.ask(line_of(commands.names_of_nodes("--states=idle,mixed"))).split())
        for name in self.cluster.compute_nodes:
            if name in free and self.place((name,)):
                return name
        pytest.skip("no node has room for a small job now.")

    def need_room(self, name: str) -> Mapping[str, str]:
        """Slurm's record of a node. Skips the check if it is out of service, which another check reports, or in use."""
        node = self.node(name)
        if name in self.busy:
            pytest.skip(self.busy[name])
        if not node_state.is_ready(node):
            pytest.skip(f"Slurm gives {name} no jobs while it is {node.get('State', 'UNKNOWN')}.")
        if node.get("CPUAlloc") == node.get("CPUTot") and self.others_on((name,)):
            pytest.skip(f"all of {name} is taken by jobs.")
        return node

    def explain(self, nodes: Sequence[str], done: CommandResult) -> None:
        """Raise AssertionError if srun's result shows that Slurm did not run the job, or skip if others were in it."""
        refused = re.search(
            r"(Unable to (allocate resources|confirm allocation|create step)|Job allocation .* revoked|"
            r"Unable to contact).*",
            done.stderr,
        )
        if done.rc == 0 or (not refused and done.rc != 124):
            return
        message = refused[0] if refused else f"no result within {self.seconds:.0f} s"
        reason = self.waiting_reason() if QUEUED in done.stderr else ""
        why = f" Slurm's reason: {reason}." if reason else ""
        if node_state.is_limit(reason) or POLICY in message:
            pytest.skip(f"a limit holds the job of {self.user}.{why or f' Slurm says: {message}.'}")
        jobs = self.others(nodes, reason) if node_state.is_for_nodes(reason) else []
        if jobs and (not refused or any(word in message for word in BUSY)):
            over = {one.id for one in self.ended_jobs()} & {*jobs}
            what = "jobs that have ended and still hold it" if over else "other jobs"
            named = ", ".join([*sorted(over), *(job for job in jobs if job not in over)][:5])
            text = f"{fold(nodes)} had no room beside {what} ({named}) for {self.wait_seconds} s.{why}"
            self.busy.update(dict.fromkeys(nodes, text))
            pytest.skip(text)
        place = self.place(nodes)
        repair = node_state.repair_of(place.partition if place else "", reason or message)
        plugins = setting(self.cluster.slurm_conf, "JobSubmitPlugins")
        if plugins and not reason and repair == node_state.LOGS:
            repair += f"; the cluster file has JobSubmitPlugins: {plugins}, which can refuse jobs of {self.user}"
        raise Seen(NOT_STARTED, f"Slurm does not run a job there: {message}.{why} Repair: {repair}")

    def waiting_reason(self) -> str:
        """Why the newest test job waits, or waited until it was cancelled; empty if it did not."""
        return node_state.real_reason(self.controller.run(line_of(commands.reasons_named(self.job_name))).stdout)

    def others(self, nodes: Sequence[str], reason: str) -> list[str]:
        """The IDs of jobs in a test job's way; with the reason why it waits, of waiting jobs, too."""
        return self.others_on(nodes) or (self.others_that("--states=PENDING") if reason else [])

    def others_on(self, nodes: Sequence[str]) -> list[str]:
        """The IDs of the jobs on these nodes, except for test jobs."""
        return self.others_that(*commands.on_nodes(fold(nodes)))

    def others_that(self, *options: str) -> list[str]:
        """The IDs of the jobs that squeue finds with these options, except for test jobs."""
        found, ours = (
            self.controller.ask(line_of(commands.ids_of_jobs(*options, *more))).split()
            for more in ((), ("--name=" + self.job_name,))
        )
        return [job for job in found if job not in ours]

    def cancel(self) -> None:
        """Cancel the remaining test jobs, and end their reservation."""
        if self.has_run_jobs:
            self.controller.run(line_of(commands.cancel_named(self.job_name)))
            if self.turn:
                self.controller.run(line_of(commands.delete_reservation(self.job_name)))


def told_in(output: str) -> dict[str, Answer]:
    """What jobs told of their nodes, by node."""
    return {node: Answer(name, int(ignored, 16), int(cpus)) for node, name, ignored, cpus in TOLD.findall(output)}


def ping(host: CheckedHost, role: str = "primary") -> str:
    """The line of `scontrol ping` about one slurmctld, which ends with `is UP` or `is DOWN`, or else its error.

    Args:
        host: the host on which it runs; its result is cached for the whole run.
        role: of the slurmctld, `primary` or `backup`.
    """
    done = host.as_found.run(line_of(commands.PING))
    lines: list[str] = (done.stdout + done.stderr).strip().splitlines()
    return next((line.strip() for line in lines if f"slurmctld({role}" in line.lower()), last_words(done))


def need_answer(host: CheckedHost) -> None:
    """Skip the check if slurmctld does not answer the host; another check reports that."""
    if not ping(host).endswith("is UP"):
        pytest.skip(f"slurmctld does not answer to {host.name}.")


def job_words(done: CommandResult) -> str:
    """Why a job failed: the last line of its error output that is no warning, or srun's first error if it has none."""
    # Open MPI ends its errors with a line of dashes.
    lines: list[str] = [line.strip() for line in done.stderr.splitlines() if line.strip(" -")]
    own = [line for line in lines if not line.startswith("srun: ")]
    own = [line for line in own if not WARNING.search(line)] or own
    errors = [line.removeprefix("srun: error: ") for line in lines if line.startswith("srun: error: ")]
    return (own[-1:] or errors[:1] or [last_words(done)])[0].rstrip(".")
