"""Whether slurmctld can send a change of Slurm's files to every slurmd, so that nodes outside a run need no login."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.rules.slurm_conf import CONFIGLESS_OPTION
from slurmfab.cluster.slurm.versions import SlurmVersion, reconfigure_renews_daemons
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.impact.slurm_diff import DEVICES, NODE_LINE, SETTING, Difference
from slurmfab.core.plan.plan_input import PlanInput

BY_SLURMCTLD = (Requirement.NOTHING, Requirement.RECONFIGURE, Requirement.RESTART_SLURMCTLD)
"""The requirements that slurmfab meets on the controllers alone."""

MORE_ON_NODES = (
    "Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "HealthCheckInterval", "JobContainerType",
    "NamespaceType", "SlurmdLogFile", "SlurmdPidFile", "SlurmdSpoolDir", "SlurmctldPort", "SlurmctldHost",
)  # fmt: skip
"""Settings that also change programs, directories or slurmd's command line on the nodes."""

OF_SLURMCTLD = ("Weight", "Feature", "Features", "State", "Reason")
"""Keys of a node line that only slurmctld uses; nothing on the node depends on them (slurm.conf(5))."""


def obstacles(plan_input: PlanInput, hosts: Collection[str]) -> tuple[str, ...]:
    """Reasons why slurmctld cannot send a change to the nodes outside a run, a clause each; empty if it can."""
    cluster = plan_input.cluster
    if not cluster.configless:
        return ("slurm.conf has to be the same on all hosts",)
    left = [host for host in cluster.hosts if host not in hosts and not cluster.fetches(host)]
    found = [f"Slurm's files on {fold(left)} change too, so --hosts has to name {fold(left)} as well"] if left else []
    if CONFIGLESS_OPTION not in plan_input.setting_before("SlurmctldParameters").lower():
        found.append("the nodes do not fetch their files from slurmctld yet")
    return (*found, *needs_of_nodes(plan_input.differences, plan_input.oldest_slurm))


def refusal(plan_input: PlanInput, hosts: Collection[str]) -> str:
    """The message that refuses a change of Slurm's files by a run on some of the hosts; empty if it is allowed."""
    found = obstacles(plan_input, hosts)
    if not found:
        return ""
    return (
        f"slurm.conf on {plan_input.cluster.controller} does not match the cluster file, and a run on only some of the "
        f"hosts cannot change it: {'; '.join(found)}. First, without --hosts or --retry-failed: {FAB} deploy. Nothing "
        "was changed."
    )


def needs_of_nodes(differences: Collection[Difference], version: SlurmVersion) -> Iterator[str]:
    """Yield a clause for each difference that needs an action on the nodes."""
    for difference in differences:
        needed = need(difference, version)
        is_read_once = difference.file == "cgroup.conf" and not reconfigure_renews_daemons(version)
        if needed not in BY_SLURMCTLD or is_read_once:
            yield f"{difference} needs {Requirement.RESTART_SLURMD.value if is_read_once else needed.value}"
        elif changes_nodes(difference):
            yield f"{difference} needs more on the nodes than Slurm's files"


def changes_nodes(difference: Difference) -> bool:
    """Whether a difference changes more on the nodes than the files that slurmd fetches."""
    if difference.kind == NODE_LINE:
        return difference.key not in OF_SLURMCTLD
    is_of_jobs = difference.file == "job_container.conf"
    return is_of_jobs or difference.kind == DEVICES or (difference.kind == SETTING and difference.name in MORE_ON_NODES)
