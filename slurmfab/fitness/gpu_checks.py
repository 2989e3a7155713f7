"""Whether the GPUs that checks are to look at are there, once the hardware of all nodes is known."""

from __future__ import annotations

from slurmfab.clusterfile.gpu_checks_rules import gpu_types, gres_of, unknown_types
from slurmfab.errors import InputError
from slurmfab.situation import Situation


def refuse_unfit(situation: Situation) -> None:
    """Refuse thresholds for types of GPUs that no node has.

    Nothing is said while some node has never been seen, since it may have such GPUs.

    Raises:
        InputError: with all such types; nothing was changed.
    """
    cluster = situation.cluster
    if cluster.gpu_checks is None or len(situation.compute_nodes) < len(cluster.compute_nodes):
        return
    types = {kind for node in situation.compute_nodes for kind in types_of(situation, node)}
    strangers = [key for _, key in unknown_types(cluster, types)]
    if not types:
        raise InputError("gpu_checks: no node has GPUs, so there is nothing to check. Nothing was changed on any host.")
    if strangers:
        raise InputError(
            f"gpu_checks: no node has GPUs of the type {' or '.join(dict.fromkeys(strangers))} "
            f"(known: {', '.join(sorted(types))}). Change that in the cluster file; nothing was changed on any host."
        )


def types_of(situation: Situation, node: str) -> set[str]:
    """The types of a node's GPUs: the cluster file's, else those that were discovered."""
    said = gres_of(situation.cluster.settings_of(node))
    return {gpu.type or "gpu" for gpu in situation.host(node).gpus} if said is None else gpu_types(said)
