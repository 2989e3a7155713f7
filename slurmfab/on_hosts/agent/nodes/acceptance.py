"""Test jobs on new nodes: run in a reservation that excludes all other users, before the nodes are put into service.

Slurm starts nothing on a drained node, not even for root. So the nodes are reserved for the slurm user, resumed and
tested. Nodes that fail are drained again before the reservation is deleted.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, List, Optional, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of, uid_of
from slurmfab.on_hosts.agent.nodes.states import (
    ACCEPTANCE_FAILED,
    UNKNOWN_NODE,
    NodeState,
    node_states,
    our_reason,
    poll_intervals,
    update,
)
from slurmfab.on_hosts.agent.services.service import is_active

READY = "ready"
SLURM = "slurm"
RESERVATION = "slurmfab_trial"
RESERVED_MINUTES = 30  # duration of the reservation, so that it ends even if the agent is killed

ALLOCATION_SECONDS = 45
HOSTNAME = "hostname"
JOB_SECONDS, WORK_SECONDS = 120.0, 360.0  # the longest time of a job that runs `hostname`, and of another one

PARALLEL_JOBS = 32
OPENED_SECONDS = 10
"""Time that a node that was DOWN gets to respond after it was resumed. slurmctld checks about once a second, and a job
that is submitted before that stays pending for seconds.
"""

LONGEST_REASON = 200


class NodeAcceptance(Resource):
    """Nodes in service, after a test job where slurmfab kept them out; a person's drain stays, and is right."""

    kind: ClassVar[str] = "node-trial"
    named_by: ClassVar[str] = "nodes"
    deadline: ClassVar[float] = 600.0
    nodes: Tuple[str, ...]  # NodeNames
    stamp: str  # who and when, for the reasons of nodes that fail
    seconds: int = 90  # how long to wait until their slurmd has registered
    partitions: Tuple[str, ...] = ()  # the partition of each node's job, in their order; by default slurmfab's own
    works: Tuple[Tuple[str, ...], ...] = ()  # likewise srun's further options and the command; by default `hostname`

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node in service, and no reservation of a killed run."""
        return {**dict.fromkeys(self.nodes, READY), "reservation": None}

    def actual(self, context: Context) -> State:
        """The nodes' states and the reservation; empty while slurmctld does not run."""
        if not is_active(context, "slurmctld"):
            return {}
        found = node_states(context, self.nodes)
        left = context.run(commands.show_reservations(RESERVATION)).returncode == 0
        return {
            **{node: format_state(found.get(node)) for node in self.nodes},
            "reservation": RESERVATION if left else None,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Wait for nodes to register, test them, and drain those that fail; ResourceFailed without reservation."""
        nodes = [node for node in self.nodes if node in differing]
        remove_reservation(context)
        late = self.wait(context, nodes, self.seconds)
        registered = [node for node in nodes if node not in late]
        for node in late:
            self.drain(context, node, "slurmd did not register within %d s" % self.seconds)
        if registered:
            context.must(commands.reserve(RESERVATION, SLURM, registered, str(RESERVED_MINUTES)))
            try:
                self.try_all(context, registered)
            except ResourceFailed as error:
                for node in registered:
                    self.drain(context, node, str(error))
                raise
            finally:
                remove_reservation(context)

    def try_all(self, context: Context, nodes: List[str]) -> None:
        """Resume the nodes and run a job on each, in parallel."""
        down = [node for node, state in node_states(context, nodes).items() if "DOWN" in state.flags]
        with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
            opened = pool.map(lambda node: self.resume(context, node, is_down=node in down), nodes)
            trying = [node for node, is_open in zip(nodes, opened) if is_open]  # noqa: B905 - as Python 3.9 has it
            with contextlib.suppress(ResourceFailed):  # the test jobs show whether slurmctld answers
                self.wait(context, trying, OPENED_SECONDS)
            list(pool.map(lambda node: self.try_one(context, node), trying))

    def wait(self, context: Context, nodes: List[str], seconds: float) -> List[str]:
        """Wait up to `seconds` for the nodes to answer, and return those that do not."""
        deadline, rests = time.monotonic() + seconds, poll_intervals()
        while True:
            found = node_states(context, nodes)
            late = [node for node in nodes if node not in found or not found[node].answers]
            if not late or time.monotonic() > deadline:
                return late
            time.sleep(next(rests))

    def resume(self, context: Context, node: str, *, is_down: bool) -> bool:
        """Resume a node and return whether Slurm accepted that; otherwise the node is drained again."""
        try:
            # After RESUME and UNDRAIN slurmctld waits, up to a second, until the node responds again. One that was not
            # DOWN has registered, and answers.
            complaint = update(context, [node], "State=RESUME" if is_down else "State=IDLE")
        except ResourceFailed as error:
            complaint = str(error)
        if complaint:
            self.drain(context, node, complaint)
        return not complaint

    def try_one(self, context: Context, node: str) -> None:
        """Run a job on a node, and drain the node if the job fails."""
        try:
            place = self.nodes.index(node)
            partition = self.partitions[place] if self.partitions else None
            work = self.works[place] if self.works else (HOSTNAME,)
            complaint = run_test_job(context, node, partition, work)
        except ResourceFailed as error:
            complaint = str(error)
        if complaint:
            self.drain(context, node, complaint)

    def drain(self, context: Context, node: str, reason: str) -> None:
        """Drain a node, with the reason in one line."""
        text = " ".join(reason.replace('"', "'").replace("(", "[").replace(")", "]").split())[:LONGEST_REASON]
        update(context, [node], "State=DRAIN", "Reason=" + our_reason(ACCEPTANCE_FAILED + text, self.stamp))


def format_state(state: Optional[NodeState]) -> str:
    """A node's state for the comparison with `wanted`."""
    if state is None:
        return UNKNOWN_NODE
    if state.is_in_service or (state.is_drained and state.is_set_by_person):
        return READY
    return "%s, %s" % (state.description, state.reason) if state.reason else state.description


def remove_reservation(context: Context) -> None:
    """Delete the reservation if it exists."""
    context.run(commands.delete_reservation(RESERVATION))


def run_test_job(context: Context, node: str, partition: Optional[str], work: Tuple[str, ...]) -> str:
    """Run a job by srun's options on a node as the slurm user; why it failed, or empty.

    `partition`: `None` for slurmfab's own; empty if none has the node. Raises ResourceFailed if it could not start.
    """
    if partition == "":
        return "it is in no partition, so no job can run on it; add it to one"
    name = "%s_%s" % (RESERVATION, node)
    argv = [
        "srun", "--reservation=" + RESERVATION, "--partition=" + (partition or commands.PARTITION),
        "--nodelist=" + node, "--nodes=1", "--ntasks=1", "--time=2", "--immediate=%d" % ALLOCATION_SECONDS,
        "--job-name=" + name, "--chdir=/", *work,
    ]  # fmt: skip
    complaint, lines = run_job(context, argv, name, JOB_SECONDS if work[-1] == HOSTNAME else WORK_SECONDS)
    return complaint + (waiting_reason(context, name) if any("queued and waiting" in line for line in lines) else "")


def run_job(context: Context, argv: List[str], name: str, seconds: float) -> Tuple[str, List[str]]:
    """Run a job of the slurm user that prints something, or cancel it; why it failed, or empty, and srun's words."""
    account = uid_of(context, SLURM), gid_of(context, SLURM)
    try:
        done = context.run(argv, seconds=seconds, account=account)
    except ResourceFailed:
        reason = waiting_reason(context, name)
        context.run(commands.cancel_named(name, SLURM))
        return "a job did not end within %.0f s%s" % (seconds, reason), []
    if done.returncode == 0 and done.stdout.strip():
        return "", []
    lines = done.stderr.decode(errors="replace").splitlines()
    return " ; ".join([line for line in lines if "error" in line][-3:]) or "the job printed nothing", lines


def waiting_reason(context: Context, name: str) -> str:
    """Slurm's reason why the newest job of this name waits or waited, to append; empty if it did not wait."""
    with contextlib.suppress(ResourceFailed):
        shown = context.must(commands.reasons_named(name)).split("\n")[0].strip()
        return "; Slurm's reason: " + shown if shown not in ("", "None") else ""
    return ""
