"""The NodeName lines of slurm.conf: one line for all nodes with equal settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold_in_order, natural
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.slurm.gres import KEYS_OF_GRES_CONF, counted, discovered, gres_value, typed_shares, written
from slurmfab.cluster.slurm.node import Node, one_of_each

FUTURE = "FUTURE"  # State of nodes that are not there yet (slurm.conf(5))
SYSTEM_MEMORY = 256  # the least margin in MiB if it is given in percent: small nodes also run a kernel, slurmd and sshd

_KEYS_OF_GRES_CONF = {key.lower() for key in KEYS_OF_GRES_CONF}
_LAYOUT = ("Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")


def node_lines(nodes: Iterable[Node], memory_margin: str) -> tuple[str, ...]:
    """The NodeName lines of slurm.conf, one for all nodes that differ only in names and addresses.

    Within a line the nodes are in natural order; lines are in the order of their first node. Names and addresses are
    folded in the same order, as Slurm pairs the two lists by position. `memory_margin`: see `real_memory`. Raises
    InputError if the margin is invalid, or slurm.conf cannot contain a value.
    """
    every = tuple(nodes)
    settings = {node.kind: tuple(node_settings(node, memory_margin).items()) for node in one_of_each(every)}
    alike: dict[tuple[object, ...], list[Node]] = {}
    for node in every:
        line = (node.address == node.name, node.hostname == node.name, settings[node.kind])
        alike.setdefault(line, []).append(node)
    return tuple(_node_line(group, memory_margin) for group in alike.values())


def node_settings(node: Node, memory_margin: str) -> dict[str, str]:
    """The settings of a node line after NodeName, NodeAddr and NodeHostname, in the order of the line.

    If the user's CPUs match neither sockets, cores nor threads of the discovered layout, the layout is left out; if the
    user sets the layout, the discovered CPUs are left out. Slurm resets CPUs that contradict the layout. A node that is
    not there yet has the user's settings alone. `memory_margin`: see `real_memory`.
    """
    if node.hardware is None:
        return {**_given(node), "State": FUTURE}
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
    own_gpus = ",".join(map(written, (*discovered(node), *counted(node))))
    if own_gpus:
        found["Gres"] = own_gpus
    found["State"] = "UNKNOWN"
    kept = {key: value for key, value in found.items() if key.lower() not in replaced}
    state = {"State": kept.pop("State")} if "State" in kept else {}
    return {**kept, **_given(node), **state}


def memory_share(node: Node, memory_margin: str) -> int | None:
    """The memory per CPU of a node in MiB, at least 1; `None` for one that is not there, or without such numbers."""
    if node.hardware is None:
        return None
    settings = {key.lower(): value for key, value in node_settings(node, memory_margin).items()}
    memory, cpus = settings["realmemory"], settings.get("cpus") or settings.get("procs") or str(node.hardware.CPUs)
    return max(1, int(memory) // int(cpus)) if memory.isdecimal() and cpus.isdecimal() and int(cpus) else None


def _given(node: Node) -> dict[str, str]:
    """The user's settings of a node line, with what slurmfab adds to a `Gres` among them."""
    gres = gres_value(node.settings) or ""
    whole = (gres if node.plain_shares else typed_shares(gres), *map(written, counted(node)))
    given = {
        key: ",".join(filter(None, whole)) if key.lower() == "gres" else str(value)
        for key, value in node.settings.items()
        if key.lower() not in _KEYS_OF_GRES_CONF
    }
    return {key: value for key, value in given.items() if value or key.lower() != "gres"}


def real_memory(total: int, margin: str) -> int:
    """The RealMemory of a node in MiB: the kernel's memory minus a margin.

    Slurm drains a node that has less memory than slurm.conf states, and a kernel update can reduce it; also the system
    itself needs memory that jobs cannot have. A margin in percent is at least `SYSTEM_MEMORY` and at most half of the
    memory; an amount, and 0%, are used as given.

    >>> real_memory(515000, "3%")
    499550

    Args:
        total: the node's memory in MiB.
        margin: `3%`, or an amount in K, M, G or T (MiB without a letter), such as `512M`.

    Raises:
        InputError: the margin is invalid, or leaves no memory.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([%KMGT]?)(?:i?B)?", str(margin).strip(), re.IGNORECASE)
    if not found:
        raise InputError(
            f"memory_margin: “{margin}” is not a margin; write a percentage such as 3%, or an amount such as 512M."
        )
    amount, unit = float(found[1]), found[2].upper()
    if unit == "%":
        wanted = max(total * amount / 100, SYSTEM_MEMORY if amount else 0)
        return total - min(int(wanted), total // 2)
    kept = total - int(amount * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}[unit])
    if kept < 1:
        raise InputError(
            f"memory_margin: {margin} leaves nothing of the {total} MiB of a node; write a smaller margin."
        )
    return kept


def _node_line(nodes: Sequence[Node], memory_margin: str) -> str:
    """One line for nodes with equal settings."""
    ordered = sorted(nodes, key=lambda node: natural(node.name))
    first = ordered[0]
    parts = [assignment("NodeName", fold_in_order([node.name for node in ordered]))]
    if first.address != first.name:
        parts.append(assignment("NodeAddr", fold_in_order([node.address for node in ordered])))
    if first.hostname != first.name:
        parts.append(assignment("NodeHostname", fold_in_order([node.hostname for node in ordered])))
    return " ".join(chain(parts, (assignment(*item) for item in node_settings(first, memory_margin).items())))


def _fits(cpus: str, hardware: Hardware) -> bool:
    """Whether a number of CPUs is that of the sockets, cores or threads; Slurm resets other numbers."""
    sockets = hardware.Boards * hardware.SocketsPerBoard
    cores = sockets * hardware.CoresPerSocket
    return str(cpus) in {str(sockets), str(cores), str(cores * hardware.ThreadsPerCore)}


def assignment(key: str, value: str) -> str:
    """Format a key and its value for Slurm's files.

    >>> assignment("Reason", "new board")
    'Reason="new board"'

    Args:
        key: as slurm.conf(5) spells it.
        value: the text after the `=`; quotes are added if it contains white space.

    Raises:
        InputError: the value contains a line break, which would begin another setting.
    """
    text = str(value)
    if "\n" in text or "\r" in text:
        raise InputError(f"{key}: its value contains a line break, which Slurm's files do not allow.")
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return f'{key}="{text}"' if re.search(r"\s", text) and not is_quoted else f"{key}={text}"
