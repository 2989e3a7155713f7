"""Users who cannot run containers without root as the cluster file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmfab.errors import InputError
from slurmfab.inventory.subordinate_ids import mistakes

if TYPE_CHECKING:
    from slurmfab.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse UIDs without subordinate IDs; slurmfab takes many UIDs from hosts, so that the file does not show them.

    Raises:
        InputError: with the users; nothing was changed.
    """
    cluster = plan_input.cluster
    if cluster.containers is None or "podman" not in cluster.containers.use or not cluster.unix_users:
        return
    found = [f"{name}: {reason}." for name, reason in mistakes(cluster, plan_input.lock.ids)]
    if found:
        raise InputError("\n".join(("containers: podman needs subordinate IDs for each user.", *found, WAY_OUT)))


WAY_OUT = "Set other UIDs in the cluster file (users, uid), or remove podman from `containers`. Nothing was changed."
