"""Whether the nodes have the GPU types that `gpu_checks` names, once the hardware of all nodes is known."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.rules.gpus import gpu_types, gres_of, unknown_types
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse thresholds for GPU types that no node has.

    While the hardware of some node is unknown, nothing is refused: that node may have such GPUs. Raises InputError:
    with these types; nothing was changed.
    """
    cluster = plan_input.cluster
    if cluster.gpu_checks is None or len(plan_input.compute_nodes) < len(cluster.compute_nodes):
        return
    types = {kind for node in plan_input.compute_nodes for kind in types_of(plan_input, node)}
    unknown = [key for _, key in unknown_types(cluster, types)]
    if not types:
        raise InputError("gpu_checks: no node has GPUs, so there is nothing to check. Nothing was changed on any host.")
    if unknown:
        raise InputError(
            f"gpu_checks: no node has GPUs of the type {' or '.join(dict.fromkeys(unknown))} "
            f"(known: {', '.join(sorted(types))}). Change that in the cluster file; nothing was changed on any host."
        )


def types_of(plan_input: PlanInput, node: str) -> set[str]:
    """The types of a node's GPUs: those of the cluster file, else the discovered ones."""
    gres = gres_of(plan_input.cluster.settings_of(node))
    return {gpu.type or "gpu" for gpu in plan_input.host(node).gpus} if gres is None else gpu_types(gres)
