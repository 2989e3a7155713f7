"""New nodes let in: each runs a job of the slurm user's, in a reservation that keeps all others away, and is resumed.

Slurm starts nothing on a drained node, not even for root. So the nodes are reserved for the slurm user, then resumed,
tried, and the reservation goes; the nodes that did not pass are drained again before it does.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Dict, List, Optional, Tuple

from slurmfab.agent.accounts import gid_of, uid_of
from slurmfab.agent.node_states import NodeState, node_states, our_reason, pauses, update
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active

READY = "ready"
SLURM = "slurm"
RESERVATION = "slurmfab_trial"
RESERVED_MINUTES = 30
"""After how long a reservation goes by itself whose agent was killed."""

ALLOCATION_SECONDS = 45
JOB_SECONDS = 120.0
AT_ONCE = 32
OPENED_SECONDS = 10
"""How long a node may count as not responding after it was opened: slurmctld looks about once a second, and a job that
comes before it has looked waits for seconds in the queue."""

LONGEST_REASON = 200
UNKNOWN = "slurmctld does not know it"


class NodeTrial(Resource):
    """Nodes that are in service, after a job has run on those that slurmfab had kept out of it until then.

    A node that somebody else has drained stays drained and counts as right.

    Args:
        nodes: NodeNames.
        stamp: who and when, for the reasons of those that do not pass.
        seconds: how long to wait for slurmd on them to register.
    """

    kind: ClassVar[str] = "node-trial"
    nodes: Tuple[str, ...]
    stamp: str
    seconds: int = 90

    def name(self) -> str:
        """The nodes."""
        return ",".join(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node in service, and no reservation left by a killed run."""
        return {**dict.fromkeys(self.nodes, READY), "reservation": None}

    def actual(self, context: Context) -> State:
        """The same as it is; nothing while slurmctld does not run."""
        if not is_active(context, "slurmctld"):
            return {}
        found = node_states(context, self.nodes)
        left = context.run(["scontrol", "--oneliner", "show", "reservation", RESERVATION]).returncode == 0
        return {**{node: words(found.get(node)) for node in self.nodes}, "reservation": RESERVATION if left else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Wait for the nodes to register, try those that do, and drain those that fail, with the reason.

        Raises:
            ResourceFailed: the nodes could not be reserved; they stay drained.
        """
        nodes = [node for node in self.nodes if node in differing]
        remove_reservation(context)
        late = self.wait(context, nodes, self.seconds)
        registered = [node for node in nodes if node not in late]
        for node in late:
            self.shut(context, node, "slurmd did not register within %d s" % self.seconds)
        if registered:
            reserve(context, registered)
            try:
                self.try_all(context, registered)
            except ResourceFailed as error:
                for node in registered:
                    self.shut(context, node, str(error))
                raise
            finally:
                remove_reservation(context)

    def try_all(self, context: Context, nodes: List[str]) -> None:
        """Open nodes for jobs and run one on each, side by side."""
        down = [node for node, state in node_states(context, nodes).items() if "DOWN" in state.flags]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            opened = pool.map(lambda node: self.is_opened(context, node, is_down=node in down), nodes)
            trying = [node for node, is_open in zip(nodes, opened) if is_open]  # noqa: B905 - as Python 3.9 has it
            with contextlib.suppress(ResourceFailed):  # a job that does not start will tell
                self.wait(context, trying, OPENED_SECONDS)
            list(pool.map(lambda node: self.try_one(context, node), trying))

    def wait(self, context: Context, nodes: List[str], seconds: float) -> List[str]:
        """Wait for nodes to answer, and return those that do not in time."""
        deadline, rests = time.monotonic() + seconds, pauses()
        while True:
            found = node_states(context, nodes)
            late = [node for node in nodes if node not in found or not found[node].answers]
            if not late or time.monotonic() > deadline:
                return late
            time.sleep(next(rests))

    def is_opened(self, context: Context, node: str, *, is_down: bool) -> bool:
        """Whether a node takes jobs now; one that Slurm does not open is drained again."""
        try:
            # RESUME has slurmctld wait for a new sign of life, which only a node that was down has to give.
            complaint = update(context, [node], "State=RESUME" if is_down else "State=UNDRAIN")
        except ResourceFailed as error:
            complaint = str(error)
        if complaint:
            self.shut(context, node, complaint)
        return not complaint

    def try_one(self, context: Context, node: str) -> None:
        """Run a job on a node, and drain it again when that fails."""
        try:
            complaint = trouble_of_job(context, node)
        except ResourceFailed as error:
            complaint = str(error)
        if complaint:
            self.shut(context, node, complaint)

    def shut(self, context: Context, node: str, why: str) -> None:
        """Drain a node, with the reason in one line."""
        text = " ".join(why.replace('"', "'").replace("(", "[").replace(")", "]").split())[:LONGEST_REASON]
        update(context, [node], "State=DRAIN", "Reason=" + our_reason("no job runs there: " + text, self.stamp))


def words(state: Optional[NodeState]) -> str:
    """A node's state in a comparison."""
    if state is None:
        return UNKNOWN
    if state.is_in_service or (state.is_drained and state.is_somebodys):
        return READY
    return "%s, %s" % (state.words, state.reason) if state.reason else state.words


def reserve(context: Context, nodes: List[str]) -> None:
    """Keep all but the slurm user away from nodes.

    Raises:
        ResourceFailed: Slurm refuses that.
    """
    context.must([
        "scontrol", "create", "reservation", "ReservationName=" + RESERVATION, "Users=" + SLURM,
        "Nodes=" + ",".join(nodes), "StartTime=now", "Duration=%d" % RESERVED_MINUTES, "Flags=IGNORE_JOBS",
    ])  # fmt: skip


def remove_reservation(context: Context) -> None:
    """Take the reservation away, if there is one."""
    context.run(["scontrol", "delete", "ReservationName=" + RESERVATION])


def trouble_of_job(context: Context, node: str) -> str:
    """Run a job on a node as a user would, from the controller; returns what went wrong, empty when it ran.

    Raises:
        ResourceFailed: it could not even be tried.
    """
    partition = partition_of(context, node)
    if not partition:
        return "no partition that is up has it"
    account = uid_of(context, SLURM), gid_of(context, SLURM)
    name = "%s_%s" % (RESERVATION, node)
    argv = [
        "srun", "--reservation=" + RESERVATION, "--partition=" + partition, "--nodelist=" + node, "--nodes=1",
        "--ntasks=1", "--time=2", "--immediate=%d" % ALLOCATION_SECONDS, "--job-name=" + name, "--chdir=/", "hostname",
    ]  # fmt: skip
    try:
        done = context.run(argv, seconds=JOB_SECONDS, account=account)
    except ResourceFailed:
        context.run(["scancel", "--name=" + name, "--user=" + SLURM])
        return "a job did not end within %.0f s" % JOB_SECONDS
    if done.returncode == 0 and done.stdout.strip():
        return ""
    said = [line for line in done.stderr.decode(errors="replace").splitlines() if "error" in line]
    return " ; ".join(said[-3:]) or "it printed nothing"


def partition_of(context: Context, node: str) -> str:
    """A partition of a node in which jobs start now, empty when there is none."""
    shown: Dict[str, str] = {}
    for line in context.must(["sinfo", "--all", "-h", "-N", "-n", node, "-o", "%R|%a"]).splitlines():
        partition, _, availability = line.strip().partition("|")
        shown[partition] = availability
    return next((partition for partition, availability in shown.items() if availability == "up"), "")
