"""The lines of slurm.conf that describe compute nodes: equal ones in one line, however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain

from slurmfab.errors import InputError
from slurmfab.facts import Hardware
from slurmfab.slurm.gres import KEYS_OF_GRES_CONF, discovered, written
from slurmfab.slurm.node import Node, one_of_each
from slurmfab.slurm.spelling import assignment, fold_in_order, natural

SYSTEM_MEMORY = 256
"""MiB that a margin in percent leaves to the system at least: a small node has a kernel, slurmd and sshd as well."""

_KEYS_OF_GRES_CONF = {key.lower() for key in KEYS_OF_GRES_CONF}
_LAYOUT = ("Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")


def node_lines(nodes: Iterable[Node], memory_margin: str) -> tuple[str, ...]:
    """The NodeName lines of slurm.conf, one for all nodes that differ in names and addresses only.

    Within a line the nodes are in natural order, lines in the order in which their first node appears. Names and
    addresses are folded side by side: Slurm pairs the two lists by position.

    Args:
        nodes: the compute nodes.
        memory_margin: see `real_memory`.

    Raises:
        InputError: the margin is none, or a value cannot be written in slurm.conf.
    """
    every = tuple(nodes)
    settings = {node.kind: tuple(node_settings(node, memory_margin).items()) for node in one_of_each(every)}
    alike: dict[tuple[object, ...], list[Node]] = {}
    for node in every:
        line = (node.address == node.name, node.hostname == node.name, settings[node.kind])
        alike.setdefault(line, []).append(node)
    return tuple(_node_line(group, memory_margin) for group in alike.values())


def node_settings(node: Node, memory_margin: str) -> dict[str, str]:
    """What a node line says after NodeName, NodeAddr and NodeHostname, in the order in which it is written.

    A user's CPUs that fit no layer of the discovered layout stand alone, and a user's layout stands without the
    discovered CPUs: Slurm resets CPUs that contradict the layout.
    """
    own = {key.lower(): value for key, value in node.settings.items()}
    found = {key: str(value) for key, value in asdict(node.hardware).items()}
    found["RealMemory"] = str(real_memory(node.hardware.RealMemory, memory_margin))
    replaced = set(own)
    if "procs" in own or "cpus" in own:
        replaced |= {"cpus"}
        if not _fits(own.get("cpus", own.get("procs", "")), node.hardware):
            replaced |= {key.lower() for key in _LAYOUT}
    if "sockets" in own:
        replaced |= {"boards", "socketsperboard"}
    if own.keys() & {"sockets", *(key.lower() for key in _LAYOUT)}:
        replaced |= {"cpus"}
    gres = ",".join(written(device) for device in discovered(node))
    if gres:
        found["Gres"] = gres
    found["State"] = "UNKNOWN"
    kept = {key: value for key, value in found.items() if key.lower() not in replaced}
    state = {"State": kept.pop("State")} if "State" in kept else {}
    said = {key: str(value) for key, value in node.settings.items() if key.lower() not in _KEYS_OF_GRES_CONF}
    return {**kept, **said, **state}


def real_memory(total: int, margin: str) -> int:
    """The RealMemory of a node in MiB: all that the kernel has, without a margin.

    Slurm takes a node out of service when it has less memory than slurm.conf says, and a kernel update can take some
    away; and the system needs memory of its own that jobs must not be promised. A margin in percent is at least
    `SYSTEM_MEMORY` and at most half of the memory; an amount is taken as it is, and so is 0%.

    >>> real_memory(515000, "3%")
    499550

    Args:
        total: MiB.
        margin: `3%`, or an amount in K, M, G or T (MiB without a letter), such as `512M`.

    Raises:
        InputError: the margin is neither, or takes all the memory.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([%KMGT]?)(?:i?B)?", str(margin).strip(), re.IGNORECASE)
    if not found:
        raise InputError(
            f"memory_margin: “{margin}” is no margin; write a percentage as in 3%, or an amount as in 512M."
        )
    amount, unit = float(found[1]), found[2].upper()
    if unit == "%":
        wanted = max(total * amount / 100, SYSTEM_MEMORY if amount else 0)
        return total - min(int(wanted), total // 2)
    kept = total - int(amount * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}[unit])
    if kept < 1:
        raise InputError(f"memory_margin: {margin} leaves nothing of the {total} MiB of a node; write a smaller one.")
    return kept


def _node_line(nodes: Sequence[Node], memory_margin: str) -> str:
    """One line for nodes that are alike."""
    ordered = sorted(nodes, key=lambda node: natural(node.name))
    first = ordered[0]
    words = [assignment("NodeName", fold_in_order([node.name for node in ordered]))]
    if first.address != first.name:
        words.append(assignment("NodeAddr", fold_in_order([node.address for node in ordered])))
    if first.hostname != first.name:
        words.append(assignment("NodeHostname", fold_in_order([node.hostname for node in ordered])))
    return " ".join(chain(words, (assignment(*item) for item in node_settings(first, memory_margin).items())))


def _fits(cpus: str, hardware: Hardware) -> bool:
    """Whether a number of CPUs is that of the sockets, cores or threads: others Slurm resets."""
    sockets = hardware.Boards * hardware.SocketsPerBoard
    cores = sockets * hardware.CoresPerSocket
    return str(cpus) in {str(sockets), str(cores), str(cores * hardware.ThreadsPerCore)}
