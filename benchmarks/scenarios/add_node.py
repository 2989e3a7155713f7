"""A node that joins a small and a larger cluster, beside apt alone on such a host; each time an untouched host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.access import each
from benchmarks.clusters import Cluster, require_cluster
from benchmarks.measuring import Way
from benchmarks.programs import timed
from benchmarks.results import Sample, Target
from benchmarks.scenarios.first_deployment import SPARING, WAITS, install
from benchmarks.scenarios.scenario import Scenario, Setting

SMALL, LARGE = 4, 15
LETTERS = {SMALL: "s", LARGE: "l"}
PLAIN, LEAN = "apt on that host, plain", "apt on that host, lean"
TO_SMALL, TO_LARGE = f"add-node to {SMALL}", f"add-node to {LARGE}"


@dataclass
class Growing:
    """A cluster beside hosts that are no part of it yet.

    Args:
        all_hosts: the lab's hosts, with a cluster file that names the members alone.
        size: how many compute nodes are members.
        taken: the hosts that have been used up.
    """

    all_hosts: Cluster
    size: int
    taken: list[str] = field(default_factory=list)

    @property
    def members(self) -> tuple[str, ...]:
        """The controller and the compute nodes at the start."""
        return self.all_hosts.access.names[: self.size + 1]

    def take(self) -> None:
        """Choose the next host that nobody has touched."""
        self.taken.append(self.all_hosts.access.names[self.size + 1 + len(self.taken)])

    def add(self) -> Sample:
        """Have the host join that was chosen last."""
        host = self.all_hosts.lab.host(self.taken[-1])
        return timed(self.all_hosts.command("add-node", host.address, "--accept-new-host-keys"))

    def require_joined(self) -> None:
        """See that the cluster works with it, and bring the cluster back to its size."""
        require_cluster(self.all_hosts.access.only((*self.members, self.taken[-1])))
        self.all_hosts.slurmfab("remove-node", self.taken[-1])


def growing(setting: Setting, size: int, spare: int) -> Growing:
    """A deployed cluster of this size, with spare hosts beside it."""
    setting.say(f"deploying to 1 + {size} hosts of a lab with {spare} more")
    made = setting.labs.fresh(LETTERS[size], size + spare)
    write_members(made, size)
    cluster = Growing(made, size)
    made.slurmfab("deploy")
    require_cluster(made.access.only(cluster.members))
    return cluster


def write_members(cluster: Cluster, size: int) -> None:
    """Write a cluster file and a lock that know the controller and the first compute nodes alone."""
    members = cluster.access.names[: size + 1]
    places = ", ".join(f"{name}: {cluster.lab.host(name).address}" for name in members)
    text = re.sub(r"^addresses: .*$", f"addresses: {{{places}}}", cluster.file.read_text(), flags=re.MULTILINE)
    cluster.file.write_text(re.sub(r"n\[1-\d+\]", f"n[1-{size}]", text))
    path = cluster.file.with_suffix(".lock.json")
    lock = json.loads(path.read_text())
    lock["hosts"] = {name: known for name, known in lock["hosts"].items() if name in members}
    path.write_text(json.dumps(lock))


def ways(setting: Setting) -> Iterable[Way]:
    """apt alone, in two ways, and joining clusters of two sizes."""
    # A spare host for each round's join, and in the small cluster's lab two others for apt.
    small, large = growing(setting, SMALL, 3 * setting.rounds), growing(setting, LARGE, setting.rounds)

    def apt(options: str) -> Sample:
        return each({small.taken[-1]: install("compute", options)}, small.all_hosts.access)

    yield Way(PLAIN, lambda: apt(""), small.take, is_peer=True)
    yield Way(LEAN, lambda: apt(SPARING), small.take)
    yield Way(TO_SMALL, small.add, small.take, small.require_joined)
    yield Way(TO_LARGE, large.add, large.take, large.require_joined)


def tidy(setting: Setting) -> None:
    """Take both labs down."""
    for letter in LETTERS.values():
        setting.labs.remove(letter)


SCENARIO = Scenario(
    "add-node",
    f"add-node, one host to a cluster of {SMALL} and of {LARGE}",
    ways,
    (
        *(Target(of, floor, 1.15) for floor in (PLAIN, LEAN) for of in (TO_SMALL, TO_LARGE)),
        Target(TO_LARGE, TO_SMALL),
    ),
    warm_ups=0,
    rounds=3,
    peer_rounds=1,
    minutes=20,
    tidy=tidy,
    notes=(
        "add-node: each round uses an untouched host without package lists; apt as for the first deployment. A node "
        "has joined when a job has run on it; it is removed before the next round. Joining a cluster of 15 takes "
        "longer than joining one of 4 because all hosts share two CPUs; the same is true of the floor `ssh true` for "
        "16 hosts and for 5.",
        WAITS,
    ),
)
