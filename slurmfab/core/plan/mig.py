"""MIG instances: how a host's NVIDIA GPUs shall be divided, and what the lock takes over once they are.

What counts is the slot: a GPU that has fallen off its bus stays in the lock, and the others are divided all the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slurmfab.base.hostlist import fold
from slurmfab.base.objections import Objection, objected
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Gpu, HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.inventory.mig import Layout
from slurmfab.core.impact.disruptive_changes import Disruption
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status.snapshot import Job
from slurmfab.on_hosts.agent.facts.gpus import slurm_type

CAPABILITY = "mig"
SUBJECT = "MIG instances"  # what changes, for the reason of drained nodes

Layouts = Mapping[str, Layout]
"""The profiles of each GPU's instances, by the GPU's slot."""

_NVIDIA = re.compile(r"/dev/nvidia\d+")
_REASON = (
    "GPUs are divided while no job runs on their node. Then slurm.conf and gres.conf name the new instances, and the "
    "node goes back into service once a test job has had one of each kind."
)


@dataclass(frozen=True)
class Pinned:
    """What the lock holds of a host's GPUs."""

    gpus: tuple[Gpu, ...]
    before: Layouts  # before slurmfab divided them
    differs: bool  # whether one is not as wanted


def slots(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The slots of NVIDIA GPUs, each once."""
    return tuple(dict.fromkeys(gpu.bus for gpu in gpus if gpu.bus and _NVIDIA.fullmatch(gpu.file)))


def layouts(gpus: Sequence[Gpu]) -> dict[str, Layout]:
    """How GPUs are divided, with profiles as types of gres.conf have them."""
    return {
        slot: tuple(sorted(gpu.type.rpartition("_")[2] for gpu in gpus if gpu.bus == slot and gpu.with_files))
        for slot in slots(gpus)
    }


def wanted(cluster: Cluster, host: str, known: HostLock) -> dict[str, Layout]:
    """How a host's GPUs shall be divided: as the cluster file says, else as they were before it did.

    Empty where slurmfab has never divided them.
    """
    layout = cluster.mig_of(host)
    return dict(known.mig_before) if layout is None else dict.fromkeys(slots(known.gpus), layout)


def differing(expected: Layouts, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The slots whose GPU is there, and not divided as expected."""
    now = layouts(gpus)
    return tuple(
        slot for slot, layout in expected.items() if slot in now and now[slot] != tuple(sorted(map(slurm_type, layout)))
    )


def pinned(cluster: Cluster, host: str, old: HostLock, gpus: tuple[Gpu, ...], fact: HostFacts) -> Pinned:
    """What the lock is to hold: the instances that the host has, where they are the wanted ones.

    `old`: the host in the lock before. `gpus`: its GPUs by the lock, as they are without this. `fact`: its facts now.
    """
    is_said = cluster.mig_of(host) is not None
    if not is_said and not old.mig_before:
        return Pinned(gpus, {}, differs=False)
    now, before = layouts(fact.gpus), dict(old.mig_before)
    if is_said:
        before = {**{slot: now[slot] for slot in slots(gpus) if slot in now}, **before}
    expected = wanted(cluster, host, HostLock(gpus=gpus, mig_before=before))
    wrong = differing(expected, fact.gpus)
    right = {slot for slot in expected if slot in now and slot not in wrong}
    if not is_said and CAPABILITY not in fact.owned and not wrong:
        before = {}
    return Pinned(tuple(_replaced(gpus, fact.gpus, right)), before, differs=bool(wrong))


def _replaced(known: Sequence[Gpu], now: Sequence[Gpu], taken: set[str]) -> Iterator[Gpu]:
    """Yield the GPUs of a lock, those in some slots as they are now."""
    done = set()
    for gpu in known:
        if gpu.bus not in taken:
            yield gpu
        elif gpu.bus not in done:
            done.add(gpu.bus)
            yield from (one for one in now if one.bus == gpu.bus)


def to_divide(plan_input: PlanInput) -> dict[str, tuple[str, ...]]:
    """The slots of GPUs that this run divides otherwise, by compute node."""
    found = {}
    for node in plan_input.compute_nodes:
        known = plan_input.host(node)
        if known.mig_before and node in plan_input.facts:
            found[node] = differing(wanted(plan_input.cluster, node, known), plan_input.facts[node].gpus)
    return {node: there for node, there in found.items() if there}


def disruptions(plan_input: PlanInput, jobs: Sequence[Job]) -> tuple[Disruption, ...]:
    """What dividing GPUs would do to the jobs on their nodes, with or without GPUs; empty where there are none."""
    nodes = {} if plan_input.files_stay else to_divide(plan_input)
    hurt = tuple(job for job in jobs if nodes.keys() & {*job.nodes})
    if not hurt:
        return ()
    busy = tuple(node for node in nodes if any(node in job.nodes for job in hurt))
    what = f"{fold(busy)}: GPUs divided into other MIG instances"
    return (Disruption(CAPABILITY, what, _REASON, hurt, busy, only_drained=True),)


def notices(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose GPUs are divided, each with what else that changes."""
    for node, there in () if plan_input.files_stay else to_divide(plan_input).items():
        layout = wanted(plan_input.cluster, node, plan_input.host(node))
        texts = dict.fromkeys(", ".join(layout[slot]) or "whole GPUs" for slot in there)
        count = f"{len(there)} GPUs become" if len(there) > 1 else "a GPU becomes"
        yield (
            node,
            (
                f"{count} {' or '.join(texts)} (mig) while the node is drained; gres.conf and slurm.conf then name "
                "what is there, and the node returns to service after a test job"
            ),
        )


def refuse_partial(before: Lock, plan_input: PlanInput, among: Collection[str]) -> None:
    """Refuse to divide GPUs of nodes in service in a run on some of the hosts.

    `before`: the lock before, by which nodes on trial get no jobs. `among`: the hosts of the run. Raises InputError:
    nothing was changed.
    """
    there, known = plan_input.conf_before.nodes, before.hosts
    nodes = [node for node in to_divide(plan_input) if node in there and not known[node].on_trial]
    if nodes and not plan_input.files_stay and not {*plan_input.cluster.hosts} <= {*among}:
        told = "GPUs are to be divided into other MIG instances, which changes slurm.conf on all hosts. First, without "
        told += f"--hosts or --retry-failed: {FAB} deploy."
        # What the cluster file changes is in the way of the whole run, what a node says otherwise than before is not.
        layout = {node: wanted(plan_input.cluster, node, plan_input.host(node)) for node in nodes}
        otherwise = tuple(node for node in nodes if not differing(layout[node], known[node].gpus))
        objected([Objection(otherwise, told) if otherwise == (*nodes,) else f"{fold(nodes)}: {told}"])
