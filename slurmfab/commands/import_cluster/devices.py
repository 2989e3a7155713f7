"""Devices of nodes: what gres.conf of each host says, and the keys of the cluster file for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.hostlist import fold, fold_in_order, natural
from slurmfab.cluster.slurm.conf_text import Settings, names_in, parse
from slurmfab.cluster.slurm.gres import UNUSED
from slurmfab.commands.import_cluster.first_lock import nodes_with_unused_gpus
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.core.plan.hand_made_files import devices, is_same_for
from slurmfab.core.plan.plan_input import PlanInput


def lines_of(text: str, node: str) -> tuple[Settings, ...]:
    """The lines of a gres.conf that are about a node."""
    return tuple(line for line in parse(text).lines if "nodename" not in line or node in names_in(line["nodename"]))


def text_of(old: OldCluster, node: str) -> str:
    """The gres.conf that a node uses: its own, or with configless that of the controller."""
    own = old.text_of(node, "gres.conf")
    return own if own or not old.files(node).configless else old.texts["gres.conf"]


def node_settings(old: OldCluster, node: str) -> dict[str, str]:
    """The keys of gres.conf for a node's group: AutoDetect, and device files that slurmfab does not discover."""
    found = devices(text_of(old, node))
    lines = found.get(node, found[""])
    method = next((line.autodetect for line in reversed(lines) if line.autodetect), "")
    if method:
        return {"AutoDetect": method}
    if node in nodes_with_unused_gpus(old):
        return {"Gres": UNUSED}
    if node not in old.found.facts:
        return {}
    known = {gpu.file for gpu in old.found.facts[node].gpus}
    files = (file for line in lines if line.name == "gpu" for file in (*line.files, *line.multiple))
    missing = sorted({file for file in files if file not in known}, key=natural)
    return {"File": fold_in_order(missing)} if missing else {}


def remarks(old: OldCluster, plan_input: PlanInput) -> Iterator[str]:
    """Yield the nodes whose gres.conf would say something else to Slurm."""
    if unused := tuple(nodes_with_unused_gpus(old)):
        yield (
            f"{fold(unused)}: there are GPUs, and slurm.conf gives no Gres, so jobs cannot ask for them. That stays "
            "so, by Gres: none in the cluster file; to use them, remove that line."
        )
    ours = plan_input.rendered.get("gres.conf", "")
    differing: dict[tuple[str, str], list[str]] = {}
    for node in old.nodes:
        text = text_of(old, node)
        if node in old.found.hosts and not is_same_for("gres.conf", (node,), text, ours):
            differing.setdefault((gres_text(lines_of(text, node)), gres_text(lines_of(ours, node))), []).append(node)
    for (before, after), names in differing.items():
        yield f"gres.conf of {fold(names)} will change from “{before}” to “{after}”, unless keep_files is set."


def gres_text(lines: tuple[Mapping[str, str], ...]) -> str:
    """Lines of gres.conf for people, without the names of nodes."""
    told = (" ".join(f"{key}={value}" for key, value in line.items() if key != "nodename") for line in lines)
    return "; ".join(told) or "nothing"
