"""The lock of an imported cluster: facts of the hosts that answered, and slurm.conf's word for nodes that did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from slurmfab.base.errors import IdConflict
from slurmfab.cluster.facts import Gpu, Hardware, weakest
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.slurm import meaning
from slurmfab.cluster.slurm.gres import parsed
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.core.plan.hand_made_files import devices
from slurmfab.core.plan.pinned import pin

HARDWARE = {
    "CPUs": "cpus",
    "Boards": "boards",
    "SocketsPerBoard": "socketsperboard",
    "CoresPerSocket": "corespersocket",
    "ThreadsPerCore": "threadspercore",
    "RealMemory": "realmemory",
}
"""Keys of a node line for the fields of `Hardware`."""


MOST_GPUS = 64  # the most GPUs of one type that a line is believed to give a node


def first_lock(cluster: Cluster, old: OldCluster) -> Lock:
    """The lock beside the new cluster file, in which silent nodes were never seen, and IDs may differ."""
    cgroup = weakest(tuple(facts.cgroup for name, facts in old.found.facts.items() if name in old.conf.nodes))
    lost = {
        name: HostLock(
            hostname=old.hostname(name),
            hardware=hardware(old, name),
            gpus=gpus(old, name),
            cgroup=cgroup,
            never_seen=True,
        )
        for name in cluster.hosts
        if name not in old.found.facts
    }
    facts = {name: fact for name, fact in old.found.facts.items() if name in cluster.hosts}
    try:
        return pin(cluster, Lock(hosts=lost), facts)
    except IdConflict:  # later, --move-ids gives the hosts that are told the number that the controller or most have
        return pin(cluster, Lock(hosts=lost), facts, move_ids=True)


def nodes_with_unused_gpus(old: OldCluster) -> Iterator[str]:
    """Yield the nodes that have GPUs and to which slurm.conf gives no Gres at all."""
    for name in old.nodes:
        if name in old.found.facts and old.found.facts[name].gpus and not old.node_setting(name, "gres"):
            yield name


def gpus(old: OldCluster, name: str) -> tuple[Gpu, ...]:
    """The GPUs that slurm.conf gives a node that was never seen, with the device files that gres.conf gives it."""
    entries = (
        tuple(filter(None, map(parsed, old.node_setting(name, "gres").split(",")))) if name in old.conf.nodes else ()
    )
    types = [
        entry.type
        for entry in entries
        if entry.name == "gpu" and entry.count.isdecimal()
        for _ in range(min(int(entry.count), MOST_GPUS))
    ]
    lines = devices(old.texts["gres.conf"])
    named = [file for line in lines.get(name, lines[""]) if line.name == "gpu" for file in line.files]
    files = named if len(named) == len(types) else [f"/dev/nvidia{number}" for number in range(len(types))]
    return tuple(Gpu(file, kind) for file, kind in zip(files, types, strict=True))


def hardware(old: OldCluster, name: str) -> Hardware | None:
    """The hardware that slurm.conf gives a compute node; `None` for another host."""
    if name not in old.conf.nodes:
        return None
    line: Mapping[str, str] = meaning.node_meanings(old.conf.nodes[name].settings)
    with suppress(ValueError):
        if not meaning.too_many_cpus(old.conf.nodes[name].settings):
            return Hardware(**{field: int(line.get(key, "1")) for field, key in HARDWARE.items()})
    return Hardware(1, 1, 1, 1, 1, 1)
