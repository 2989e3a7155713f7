"""Whether slurmctld can carry a change of Slurm's files to every slurmd, without anybody's logging in on the nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from slurmfab.clusterfile.configless import OPTION
from slurmfab.hostlist import fold
from slurmfab.promises.conf import DEVICES, NODE_LINE, SETTING, Difference
from slurmfab.promises.needs import Need, need
from slurmfab.slurm.versions import SlurmVersion, reconfigure_renews_daemons

if TYPE_CHECKING:
    from slurmfab.situation import Situation

BY_SLURMCTLD = (Need.NOTHING, Need.RECONFIGURE, Need.RESTART_SLURMCTLD)
"""The needs that are seen to on the controllers."""

MORE_ON_NODES = (
    "Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "HealthCheckInterval", "JobContainerType",
    "NamespaceType", "SlurmdLogFile", "SlurmdPidFile", "SlurmdSpoolDir", "SlurmctldPort", "SlurmctldHost",
)  # fmt: skip
"""Settings with which programs, directories or slurmd's own arguments on nodes change as well."""

OF_SLURMCTLD = ("Weight", "Feature", "Features", "State", "Reason")
"""Keys of a node line that nothing on the node depends on (slurm.conf(5))."""


def obstacles(situation: Situation, hosts: Collection[str]) -> tuple[str, ...]:
    """Why a run about some of the hosts cannot leave the nodes' part to slurmctld, a clause each; empty if it can.

    Args:
        situation: what is wanted and known.
        hosts: those that the run is about.
    """
    cluster = situation.cluster
    if not cluster.configless:
        return ("slurm.conf has to be the same on all hosts",)
    left = [host for host in cluster.hosts if host not in hosts and not cluster.fetches(host)]
    found = [f"Slurm's files on {fold(left)} change too, so --hosts has to name {fold(left)} as well"] if left else []
    if OPTION not in situation.setting_before("SlurmctldParameters").lower():
        found.append("the nodes do not fetch their files from slurmctld yet")
    return (*found, *needs_of_nodes(situation.differences, situation.slurm_version))


def refusal(situation: Situation, hosts: Collection[str]) -> str:
    """Why a run about some of the hosts may not change Slurm's files, for people; empty if it may."""
    found = obstacles(situation, hosts)
    if not found:
        return ""
    return (
        f"slurm.conf on {situation.cluster.controller} is not what the cluster file says, and a run about some of the "
        f"hosts cannot change it: {'; '.join(found)}. First, without --hosts or --retry-failed: fab deploy. Nothing "
        "was changed."
    )


def needs_of_nodes(differences: Collection[Difference], version: SlurmVersion) -> Iterator[str]:
    """What the nodes themselves have to do for these differences, a clause each."""
    for difference in differences:
        needed = need(difference, version)
        is_read_once = difference.file == "cgroup.conf" and not reconfigure_renews_daemons(version)
        if needed not in BY_SLURMCTLD or is_read_once:
            yield f"{difference} needs {Need.RESTART_SLURMD.value if is_read_once else needed.value}"
        elif changes_nodes(difference):
            yield f"{difference} needs more on the nodes than Slurm's files"


def changes_nodes(difference: Difference) -> bool:
    """Whether something on nodes depends on this, besides what slurmd reads."""
    if difference.kind == NODE_LINE:
        return difference.key not in OF_SLURMCTLD
    is_of_jobs = difference.file == "job_container.conf"
    return is_of_jobs or difference.kind == DEVICES or (difference.kind == SETTING and difference.name in MORE_ON_NODES)
