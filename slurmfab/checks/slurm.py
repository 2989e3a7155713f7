"""Slurm as the controller sees it, and a way to run jobs as a user would: bounded in time, and gone afterwards."""

from __future__ import annotations

import math
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.checks import node_state
from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import partition_of
from slurmfab.cluster import Cluster
from slurmfab.hostlist import fold

WAIT_SECONDS = 30
"""How long a job of ours may wait for its resources: longer than the end of the job of ours before it takes."""

ALWAYS = ("--input=none", "--mpi=none", "--chdir=/tmp")
"""Options of every job of the checks; what bounds it in time comes with them."""

SMALL = ("--ntasks-per-node=1", "--cpus-per-task=1")
"""Options of every job of the checks as well: one task with one CPU on each node."""

JOB_SECONDS = 90
"""How long all of a job of ours may take."""

SMALL_MEMORY = 50
"""MiB that an ordinary job of ours asks for."""

AS_SLURM = ("runuser", "-u", "slurm", "--")
"""What runs srun as the slurm user."""

BUSY = ("nodes are busy", "immediate", "Job/step already completing", "Priority", "Resources")
"""Words with which srun says that others have what the job would need (srun(1), --immediate)."""


class Slurm:
    """Slurm, asked on its controller.

    Args:
        controller: the primary controller, or another host with Slurm's commands.
        cluster: the cluster file.
        sender: a command that runs the command behind it as somebody, whose jobs they then are.
        seconds: how long all of a job may take.
    """

    def __init__(
        self,
        controller: CheckedHost,
        cluster: Cluster,
        *,
        sender: Sequence[str] = AS_SLURM,
        seconds: float = JOB_SECONDS,
    ) -> None:
        self.controller = controller
        self.cluster = cluster
        self.sender = tuple(sender)
        self.seconds = seconds
        self.wait_seconds = min(WAIT_SECONDS, int(seconds))
        self.job_name = f"slurmfab-check-{secrets.token_hex(3)}"
        self.has_run_jobs = False
        self.busy: dict[str, str] = {}

    @cached_property
    def answers(self) -> bool:
        """Whether slurmctld answers; commands wait half a minute each for one that does not."""
        return ping(self.controller).endswith("is UP")

    def node(self, name: str) -> Mapping[str, str]:
        """Slurm's record of a node, by the words of `scontrol show node`."""
        return node_state.record(self.controller.ask("scontrol --oneliner show node %s", name))

    def node_as_found(self, name: str) -> Mapping[str, str]:
        """The same when a check first asked for any node's: one question for all of them."""
        # Of a node that is not among them, Slurm says itself why.
        return self.nodes_as_found.get(name) or self.node(name)

    @cached_property
    def nodes_as_found(self) -> Mapping[str, Mapping[str, str]]:
        """Slurm's records of all nodes, by name."""
        lines = self.controller.as_found.ask("scontrol --oneliner show node").splitlines()
        records = (node_state.record(line) for line in lines if line.strip())
        return {record["NodeName"]: record for record in records}

    def configuration(self) -> dict[str, str]:
        """The configuration that slurmctld runs with, by key in lower case; cgroup.conf's keys are among them."""
        lines = self.controller.as_found.ask("scontrol show config").splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        return {key.strip().lower(): value.strip() for key, _, value in pairs}

    def need_limits(self, key: str) -> None:
        """Leave a check out where Slurm is not asked to hold jobs to their limits.

        Args:
            key: of cgroup.conf, such as `ConstrainRAMSpace`.
        """
        configuration = self.configuration()
        if "task/cgroup" not in configuration.get("taskplugin", ""):
            pytest.skip("slurm.conf has no TaskPlugin=task/cgroup, so jobs are not held to anything.")
        if configuration.get(key.lower(), "no") != "yes":
            pytest.skip(f"cgroup.conf says {key}=no.")

    def run(
        self,
        nodes: Sequence[str],
        command: str,
        *,
        memory: int = SMALL_MEMORY,
        options: Sequence[str] = (),
        under: Sequence[str] = (),
    ) -> CommandResult:
        """Run a command in a job of one task on each of these nodes, as the slurm user or whoever sends the jobs.

        Args:
            nodes: their names.
            command: for `sh -c`.
            memory: MiB per node.
            options: more of srun's.
            under: a program on the controller, and its arguments, that runs srun and ends as srun does.

        Raises:
            AssertionError: Slurm did not run the job.
            pytest.skip.Exception: the nodes take no jobs now, or other people's jobs have all of them.
        """
        for node in nodes:
            self.need_room(node)
        partition = partition_of(self.cluster, tuple(nodes))
        if not partition:
            pytest.skip(f"no partition has all of {fold(nodes)}.")
        self.has_run_jobs = True
        count = len(nodes)
        place = [f"--partition={partition}", f"--nodelist={fold(nodes)}", f"--nodes={count}", f"--ntasks={count}"]
        size = [*SMALL, f"--mem={memory}M", *options]
        bounds = (f"--immediate={self.wait_seconds}", f"--time={max(2, math.ceil(self.seconds / 60))}")
        words = ["srun", *ALWAYS, *bounds, f"--job-name={self.job_name}", *place, *size, "sh", "-c", command]
        line = f"cd /tmp && exec timeout --kill-after=5 {self.seconds:.0f} "
        line += shlex.join([*under, *self.sender, *words])
        done = self.controller.run(line, seconds=self.seconds + 10)
        self.explain(nodes, done)
        return done

    def free_node(self) -> str:
        """A compute node that has room for a small job.

        Raises:
            pytest.skip.Exception: none has.
        """
        free = set(self.controller.ask("sinfo --noheader --Node --states=idle,mixed --format=%%N").split())
        for name in self.cluster.compute_nodes:
            if name in free and partition_of(self.cluster, (name,)):
                return name
        pytest.skip("no node has room for a small job now.")

    def need_room(self, name: str) -> None:
        """Leave a check out on a node that takes no jobs now; why it does not is for the check of its state."""
        node = self.node(name)
        if name in self.busy:
            pytest.skip(self.busy[name])
        if not node_state.is_ready(node):
            pytest.skip(f"Slurm gives {name} no jobs while it is {node.get('State', 'UNKNOWN')}.")
        if node.get("CPUAlloc") == node.get("CPUTot") and self.others_on((name,)):
            pytest.skip(f"all of {name} is taken by jobs.")

    def explain(self, nodes: Sequence[str], done: CommandResult) -> None:
        """Stop at a job that never began: not run where others are in the way, failed otherwise."""
        refused = re.search(
            r"(Unable to (allocate resources|confirm allocation|create step)|Job allocation .* revoked|"
            r"Unable to contact).*",
            done.stderr,
        )
        if done.rc == 0 or (not refused and done.rc != 124):
            return
        words = refused[0] if refused else f"no result within {self.seconds:.0f} s"
        jobs = self.others_on(nodes)
        if jobs and (not refused or any(word in words for word in BUSY)):
            reason = f"{fold(nodes)} had no room beside other jobs ({', '.join(jobs[:5])}) for {self.wait_seconds} s."
            self.busy.update(dict.fromkeys(nodes, reason))
            pytest.skip(reason)
        raise AssertionError(
            f"Slurm does not run a job there: {words}. "
            "Repair: see /var/log/slurm/slurmctld.log on the controller, and `sinfo -R`"
        )

    def others_on(self, nodes: Sequence[str]) -> list[str]:
        """The IDs of the jobs on these nodes, without ours."""
        lines = self.controller.ask("squeue --noheader --format='%%i %%j' --nodelist=%s", fold(nodes)).splitlines()
        return [line.split()[0] for line in lines if line.split()[-1] != self.job_name]

    def cancel(self) -> None:
        """End the jobs that are left of ours."""
        if self.has_run_jobs:
            self.controller.run("scancel --quiet --name=%s", self.job_name)


def ping(host: CheckedHost, role: str = "primary") -> str:
    """What `scontrol ping` says on a host, in one line that ends in `is UP` or `is DOWN` where there is an answer.

    Args:
        host: where it is asked.
        role: which slurmctld it is about, `primary` or `backup`.
    """
    done = host.as_found.run("scontrol ping")
    lines: list[str] = (done.stdout + done.stderr).strip().splitlines()
    return next((line.strip() for line in lines if f"slurmctld({role}" in line.lower()), last_words(done))


def need_answer(host: CheckedHost) -> None:
    """Leave a check out on a host that slurmctld does not answer; that it does not is for a check of its own."""
    if not ping(host).endswith("is UP"):
        pytest.skip(f"slurmctld does not answer to {host.name}.")


def job_words(done: CommandResult) -> str:
    """Why a job failed: its own last words, or srun's first error where it has none; what follows says less."""
    lines: list[str] = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("srun: ")]
    errors = [line.removeprefix("srun: error: ") for line in lines if line.startswith("srun: error: ")]
    return (own[-1:] or errors[:1] or [last_words(done)])[0].rstrip(".")
