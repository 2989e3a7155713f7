"""Rules about containers of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slurmfab.inventory.subordinate_ids import mistakes

if TYPE_CHECKING:
    from slurmfab.inventory.cluster import Cluster
    from slurmfab.inventory.slurm_settings import Place


def users_have_subordinate_ids(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Podman maps the users of a container to numbers of its user's own, which follow from the UID."""
    if cluster.containers is None or "podman" not in cluster.containers.use or not cluster.unix_users:
        return
    places = {user.name: number for number, user in enumerate(cluster.users)}
    numbers = {f"{user.name}.uid": user.uid for user in cluster.users if user.uid}
    for name, reason in mistakes(cluster, numbers):
        yield ("users", places[name], "uid"), reason


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (users_have_subordinate_ids,)
