"""Jobs of root, which Slurm refuses unless the cluster file says otherwise; and controllers that compute."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.slurm.conf_text import Settings
from slurmfab.core.plan.hand_made_files import ROOT_JOBS
from slurmfab.core.plan.plan_input import PlanInput

BESIDE = {"controller": "slurmctld", "database": "the accounting database"}
"""By role of a host, what users' jobs run beside if it is a compute node, too."""

REFUSED = (
    f"slurm.conf gets {ROOT_JOBS}=YES: from then on Slurm refuses srun, sbatch and salloc of root (“Invalid user id”), "
    "and jobs of root that wait stay in the queue (PartitionConfig); those that run go on. Use another user, such as "
    "`runuser -u slurm -- srun hostname`. To keep jobs of root, write slurm_conf: {DisableRootJobs: NO}"
)


def notices(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """What a deployment changes about root, said when it comes: pairs of a host and a text without its full stop."""
    before, after = plan_input.conf_before, plan_input.conf_wanted
    comes = is_refused(before.settings) < is_refused(after.settings)
    if comes and plan_input.controller_facts.slurm_conf:
        yield plan_input.cluster.controller, REFUSED
    for host in plan_input.compute_nodes:
        beside = [BESIDE[role] for role in plan_input.cluster.roles(host) if role in BESIDE]
        if beside and (comes or host not in before.nodes):
            yield host, computes_beside(" and ".join(beside), is_alone=len(plan_input.cluster.hosts) == 1)


def is_refused(settings: Settings) -> bool:
    """Whether slurm.conf, its keys in lower case, has Slurm refuse jobs of root."""
    return settings.get(ROOT_JOBS.lower(), "").lower() in ("yes", "up", "true", "1")


def computes_beside(what: str, *, is_alone: bool) -> str:
    """What it means that a host with another role computes. `is_alone`: whether it is the only host."""
    words = f"is a compute node, too, as the cluster file says, so users' jobs run beside {what}"
    return words if is_alone else f"{words}, and root of any other host of the cluster can become root here"
