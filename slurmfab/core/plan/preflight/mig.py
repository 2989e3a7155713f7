"""Whether a run may divide GPUs: what follows from that changes files on all hosts."""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.core.plan import mig
from slurmfab.core.plan.plan_input import PlanInput


def refuse_partial(plan_input: PlanInput, among: Collection[str]) -> None:
    """Refuse to divide GPUs in a run on some of the hosts.

    `among`: the hosts of the run. Raises InputError: nothing was changed.
    """
    nodes = mig.to_divide(plan_input)
    if nodes and not {*plan_input.cluster.hosts} <= {*among}:
        raise InputError(
            f"{fold(nodes)}: GPUs are to be divided into other MIG instances, which changes slurm.conf on all hosts. "
            f"First, without --hosts or --retry-failed: {FAB} deploy. Nothing was changed."
        )
