"""Jobs like those of last week: which kinds there were, and what of them the nodes of a twin can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmfab.base.errors import HostError
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.accounting.job_shapes import Shape

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.core.status.snapshot import Node
    from slurmfab.hosts.transport import Transport

DAYS = 7
MOST_KINDS = 40  # the most kinds of jobs that a twin gets
MOST_PLAIN = 5  # the most users with a job that names nothing
NO_RECORDS = (
    "jobs like last week's: no record of any was found, so each user of the cluster file had a small one in each "
    "partition"
)
"""What a rehearsal cannot tell where the kinds are made from the cluster file."""


@dataclass(frozen=True)
class Workload:
    """The kinds of jobs that ran or waited in the last days."""

    shapes: tuple[Shape, ...] = ()  # what covers most partitions, QOS, accounts and GRES is first
    is_recorded: bool = True  # whether they are from Slurm's records, and not made of the cluster file


def ask(cluster: Cluster, transport: Transport) -> Workload:
    """The kinds of last week's jobs, of the first controller that answers; HostError if none does.

    Without records, or without jobs in them, the kinds are made of the cluster file.
    """
    lost: HostError | None = None
    for host in cluster.controllers:
        try:
            found = answer_value(host, transport.call(host, {"op": "job-shapes", "days": DAYS}), "job_shapes")
        except HostError as error:
            lost = lost or error
            continue
        shapes = tuple(Shape(*values) for values in found["shapes"])
        return Workload(shapes) if shapes else from_file(cluster)
    assert lost is not None, "every cluster has a controller"
    raise lost


def from_file(cluster: Cluster) -> Workload:
    """One kind for each partition and person of the cluster file; of the slurm user where it names nobody."""
    users = [user for user in cluster.users if user.accounts or not cluster.has_accounts]
    people = [(user.name, user.uid or 0, "".join(user.accounts[:1])) for user in users] or [(cluster.slurm_user, 0, "")]
    shapes = (
        Shape(name, uid, account, partition.name, "", "", 1, 1, 0, "", 0, 1, 0, 0)
        for name, uid, account in people
        for partition in cluster.partitions
    )
    return Workload(shapes=tuple(shapes)[:MOST_KINDS], is_recorded=False)


@dataclass(frozen=True)
class TwinJob:
    """A kind of jobs as the twin is asked for it."""

    shape: Shape  # for each node, not for all together
    is_recorded: bool = True  # as the workload's
    whole: Shape | None = None  # what the jobs asked for, likewise, where the twin has not so many or so large nodes

    @property
    def is_plain(self) -> bool:
        """Whether it names no partition, and nothing else: Slurm chooses."""
        return not self.shape.partition

    @property
    def title(self) -> str:
        """Whose it is, in words: `ann, account physics, partition main, QOS normal, 3 nodes`."""
        one = self.shape
        named = (("account", one.account), ("partition", one.partition), ("QOS", one.qos), ("GRES", one.gres))
        nodes = (f"{one.nodes} nodes",) if one.nodes > 1 else ()
        return ", ".join((one.user, *(f"{word} {value}" for word, value in named if value), *nodes))

    @property
    def options(self) -> tuple[str, ...]:
        """What sbatch is told, but for the time limit."""
        one = self.shape
        named = {
            "account": one.account, "partition": one.partition, "qos": one.qos, "constraint": one.features,
            "gres": one.gres, "mem": f"{one.memory}M" if one.memory else "",
        }  # fmt: skip
        size = (f"--nodes={one.nodes}", f"--ntasks={one.nodes}", f"--cpus-per-task={one.cpus}")
        return (*size, *(f"--{name}={value}" for name, value in named.items() if value))


def fit(workload: Workload, nodes: Sequence[Node]) -> tuple[TwinJob, ...]:
    """The first kinds of a workload, each cut down to the nodes of its partitions on the twin.

    Time limit, account, partition, QOS and features stay as they are. A kind for which the twin has no node stays, too.
    """
    wholes = [_of_each_node(shape) for shape in workload.shapes[:MOST_KINDS]]
    pairs = [(whole, _fitted(whole, nodes)) for whole in wholes]
    return tuple(TwinJob(cut, workload.is_recorded, whole if whole != cut else None) for whole, cut in pairs)


def plain(workload: Workload) -> tuple[TwinJob, ...]:
    """A job of each of the first users that names nothing, so that Slurm's defaults hold for it."""
    users = {shape.user: shape.uid for shape in workload.shapes}
    shapes = [Shape(name, uid, "", "", "", "", 1, 1, 0, "", 0, 0, 0, 0) for name, uid in users.items()]
    return tuple(TwinJob(shape, workload.is_recorded) for shape in shapes[:MOST_PLAIN])


def _of_each_node(shape: Shape) -> Shape:
    """What jobs asked for, for each of their nodes."""
    count = max(shape.nodes, 1)
    cpus, memory = -(-shape.cpus // count), -(-shape.memory // count)
    gres = ",".join(f"{name}:{-(-int(amount) // count)}" for name, amount in _amounts(shape.gres))
    return shape._replace(nodes=count, cpus=max(cpus, 1), memory=memory, gres=gres)


def _fitted(whole: Shape, nodes: Sequence[Node]) -> Shape:
    wanted = set(whole.partition.split(","))
    there = [node for node in nodes if wanted & {*node.partitions}]
    if not there:
        return whole
    most = max(node.gpus for node in there)
    room = ",".join(
        f"{name}:{min(int(amount), most) if name.startswith('gpu') and most else amount}"
        for name, amount in _amounts(whole.gres)
    )
    return whole._replace(
        nodes=min(whole.nodes, len(there)),
        cpus=min(whole.cpus, max(node.cpus for node in there)),
        memory=min(whole.memory, max(node.memory for node in there)),
        gres=room,
    )


def _amounts(gres: str) -> tuple[tuple[str, str], ...]:
    """Names and amounts in `gpu:a100:2,shard:1`."""
    return tuple((name, amount) for name, _, amount in (one.rpartition(":") for one in gres.split(",") if one))
