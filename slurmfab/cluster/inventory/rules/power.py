"""Rules between `power` and the rest of a cluster file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmfab.base import hostlist
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place


def sleepers_are_compute_nodes_alone(cluster: Cluster) -> Complaints:
    """A host with another daemon than slurmd must not be switched off, and `keep` is about nodes that may sleep."""
    power = cluster.power
    if power is None:
        return
    yield from unknown(("power", "nodes"), power.nodes, cluster.compute_nodes, "not a compute node")
    for node in power.nodes:
        roles = [role for role in cluster.roles(node) if role != "compute"]
        if roles and "compute" in cluster.roles(node):
            yield ("power", "nodes"), f'"{node}" is also the {" and ".join(roles)} host, which must stay on'
    yield from unknown(("power", "keep"), power.always_on, power.nodes, "not in power.nodes")
    if power.least_on >= len(power.nodes):
        yield ("power", "keep"), f"{power.least_on} nodes stay on, so none of the {len(power.nodes)} would ever sleep"


def sleepers_can_be_switched(cluster: Cluster) -> Complaints:
    """Each node that may sleep has the address by which it is switched on again."""
    power = cluster.power
    if power is None:
        return
    how = power.how
    if cluster.slurm_user != "slurm":
        yield ("power",), f"the slurm user switches nodes, and slurm_user is {cluster.slurm_user}"
    if how.ipmi:
        without = [node for node in power.nodes if not how.ipmi.address_of(node)]
        if without:
            reason = f'"{hostlist.fold(without)}" has no address here, so it could not be switched on again'
            yield ("power", "how", "ipmi", "address"), reason
    if how.wake_on_lan:
        without = [node for node in power.nodes if node not in how.wake_on_lan.mac]
        if without:
            reason = f'"{hostlist.fold(without)}" has no MAC address here, so it could not be switched on again'
            yield ("power", "how", "wake_on_lan", "mac"), reason
        if cluster.slurm_ssh.logins == "none":
            reason = "the slurm user switches nodes off by SSH; slurm_ssh: none does not let it in"
            yield ("power", "how", "wake_on_lan"), reason


def unknown(place: Place, names: Iterable[str], known: Iterable[str], what: str) -> Iterator[tuple[Place, str]]:
    """Yield a complaint about names that are not known. `known`: the known names. `what`: what they are not."""
    others = set(known)
    missing = [name for name in names if name not in others]
    if missing:
        yield place, f'"{hostlist.fold(missing)}" is {what}'
