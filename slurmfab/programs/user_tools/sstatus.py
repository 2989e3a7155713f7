"""The command `sstatus`: what is free on the cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Iterable, List, Sequence

from slurmfab.programs.user_tools import asking, questions, settings

if TYPE_CHECKING:
    from slurmfab.programs.user_tools.nodes import Node

USAGE = "Usage: sstatus\n"


def main(words: Sequence[str]) -> int:
    """Print the state.

    Args:
        words: the arguments.

    Returns:
        The exit code: 2 for wrong arguments.
    """
    if words:
        (sys.stdout if words[0] in ("-h", "--help") else sys.stderr).write(USAGE)
        return 0 if words[0] in ("-h", "--help") else 2
    started = asking.Started({"nodes": questions.NODES})
    from slurmfab.programs.user_tools import nodes

    name = str(settings.read().get("cluster", "Cluster"))
    there = nodes.read(started.answers()["nodes"].must)
    sys.stdout.write("\n".join(["%s status:" % name, *lines(there)]) + "\n")
    return 0


def lines(there: Iterable[Node]) -> List[str]:
    """The lines about the cluster.

    Args:
        there: its nodes.
    """
    found = list(there)
    if not found:
        return ["No nodes are visible to you."]
    total = sum(sum(node.gpus.values()) for node in found)
    used = sum(sum(node.gpus_used.values()) for node in found)
    free = [node.name for node in found if node.is_free]
    return [
        *(["GPU usage %d/%d" % (used, total)] if total else []),
        "Free nodes %d/%d%s" % (len(free), len(found), ": " + ",".join(free) if free else ""),
    ]
