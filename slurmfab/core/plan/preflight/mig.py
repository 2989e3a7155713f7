"""Whether a run may divide GPUs: what follows from that changes files on all hosts."""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan import mig
from slurmfab.core.plan.plan_input import PlanInput


def refuse_partial(before: Lock, plan_input: PlanInput, among: Collection[str]) -> None:
    """Refuse to divide GPUs of nodes in service in a run on some of the hosts.

    `before`: the lock before, by which nodes on trial get no jobs. `among`: the hosts of the run. Raises InputError:
    nothing was changed.
    """
    there, known = plan_input.conf_before.nodes, before.hosts
    nodes = [node for node in mig.to_divide(plan_input) if node in there and not known[node].on_trial]
    if nodes and not {*plan_input.cluster.hosts} <= {*among}:
        raise InputError(
            f"{fold(nodes)}: GPUs are to be divided into other MIG instances, which changes slurm.conf on all hosts. "
            f"First, without --hosts or --retry-failed: {FAB} deploy. Nothing was changed."
        )
