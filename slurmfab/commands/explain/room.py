"""Whether a node has room for a job beside others: by CPUs, memory and generic resources, as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurmfab.commands.explain.evidence import Attempt, Evidence
from slurmfab.on_hosts.agent.client.amounts import mebibytes_of, number_of, tres_of
from slurmfab.on_hosts.programs.user_tools.use import named


def lacking(e: Evidence, job: Attempt, node: str, holders: Sequence[Attempt]) -> tuple[str, ...]:
    """What a node lacks for a job beside others, by people's names; empty where it has room, or that is not known.

    A node that could not have the job even if it were empty lacks nothing that others could give back.
    """
    there = e.nodes.get(node)
    if not there or not holders:
        return ()
    room: Mapping[str, float] = {"cpu": there.cpus, "mem": there.memory, **e.gres_of.get(node, {})}
    wanted = part_of(job)
    if any(amount > room.get(what, 0) for what, amount in wanted.items()):
        return ()
    if job.is_exclusive:
        return ("CPUs",)
    used = [part_of(one) for one in holders]
    short = (what for what, amount in wanted.items() if amount + sum(one.get(what, 0) for one in used) > room[what])
    return tuple(named(what).removeprefix("gres/") for what in short)


def part_of(job: Attempt) -> dict[str, float]:
    """What a job has, or wants, on each of its nodes, by Slurm's name of the resource."""
    tres = tres_of(job.tres)
    nodes = len(job.nodes) or number_of(tres.get("node", "")) or 1
    gres = {name: float(number_of(text) or 0) for name, text in tres.items() if name.startswith("gres/")}
    amounts = {"cpu": float(max(1, job.cpus)), "mem": float(memory_of(job)), **gres}
    return {**job.gres, **{name: amount / max(1, nodes) for name, amount in amounts.items() if amount}}


def memory_of(job: Attempt) -> int:
    """The memory of a job on all of its nodes, in MiB."""
    return mebibytes_of(tres_of(job.tres).get("mem", "")) or 0
