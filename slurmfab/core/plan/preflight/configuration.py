"""Whether Slurm's new files may replace those that the controller has: one cluster, known keys, equal on all hosts."""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.private_tmp import unknown_to
from slurmfab.cluster.slurm.gres import KEYS_OF_GRES_CONF
from slurmfab.cluster.slurm.versions import complaints
from slurmfab.core.plan.configless_reach import refusal
from slurmfab.core.plan.plan_input import PlanInput


class KeysRefused(InputError):
    """The installed Slurm does not know keys or values of the cluster file.

    Args:
        mistakes: one text for each, which begins with section and key.
    """

    def __init__(self, mistakes: tuple[str, ...], way: str) -> None:
        super().__init__("\n".join((*mistakes, way)))
        self.mistakes, self.way = mistakes, way


def refuse_other_cluster(plan_input: PlanInput, allowed: Collection[str] = ()) -> None:
    """Refuse a ClusterName other than that of the controller's state, unless the user allows it.

    Most often the cluster file or the host is the wrong one, and the deployment would mix two clusters. slurmctld
    ends with CLUSTER NAME MISMATCH when its state directory belongs to another cluster.

    Args:
        allowed: names of disruptive changes that the user allows, such as `ClusterName`.

    Raises:
        InputError: the names differ; nothing was changed.
    """
    found = plan_input.setting_before("ClusterName")
    if plan_input.renames_cluster and "ClusterName" not in allowed:
        raise InputError(
            f"{plan_input.cluster.controller} is the controller of the cluster {found}, and the cluster file says "
            f"{plan_input.cluster.name}. Slurm's accounts depend on that name. Set `cluster: {found}`; or, to rename "
            f"{found} with its nodes and jobs: {FAB} deploy --allow ClusterName."
        )


def refuse_uneven_files(plan_input: PlanInput, hosts: Collection[str]) -> None:
    """Refuse a run about some of the hosts that would leave them with a slurm.conf other than the controller's.

    Raises:
        InputError: slurm.conf changes and the run leaves out some hosts; nothing was changed.
    """
    before = plan_input.controller_facts.slurm_conf
    if not before or set(plan_input.cluster.hosts) <= set(hosts):
        return
    cluster = plan_input.cluster
    changes = before != dict(plan_input.files)["slurm.conf"] or (cluster.configless and plan_input.differences)
    changes = changes or plan_input.site_differences
    if changes and (reason := refusal(plan_input, hosts)):
        raise InputError(reason)


def refuse_closed_nodes_without_control_groups(plan_input: PlanInput) -> None:
    """Refuse nodes that let in users with a job there, where Slurm cannot tell which processes are a job's.

    Raises:
        InputError: nobody would get in; nothing was changed.
    """
    if plan_input.cluster.node_logins != "with_job":
        return
    settings = plan_input.conf_wanted.settings
    flags = {flag.strip().lower() for flag in settings.get("prologflags", "").split(",")}
    if not flags & {"contain", "x11"} or settings.get("proctracktype") != "proctrack/cgroup":
        raise InputError(
            "node_logins: with_job needs control groups on every compute node, and at least one has none that Slurm "
            "can use, so nobody could log in with a job. Nothing was changed on any host."
        )


def refuse_unknown_keys(plan_input: PlanInput) -> None:
    """Refuse keys and values that the installed Slurm does not know, before any file is sent.

    Raises:
        KeysRefused: one line for each mistake.
    """
    cluster = plan_input.cluster
    node_keys = {key for group in cluster.nodes for key in group.settings if key not in KEYS_OF_GRES_CONF}
    partition_keys = {key for partition in cluster.partitions for key in partition.settings}
    found: list[str] = []
    for version in sorted({plan_input.oldest_slurm, plan_input.slurm_version}):
        found += complaints(version, cluster.slurm_conf, cluster.cgroup_conf, node_keys, partition_keys)
        found += unknown_to(cluster.private_tmp, version)
    if cluster.database:
        of_slurmdbd = plan_input.slurm_of(cluster.database.host)
        found += complaints(of_slurmdbd, {}, {}, (), (), slurmdbd_conf=cluster.slurmdbd_conf)
    if found:
        raise KeysRefused(tuple(found), f"Change that in the cluster file{or_upgrade(plan_input)}.")


def or_upgrade(plan_input: PlanInput) -> str:
    """The other way out, where hosts have a Slurm older than slurmctld, and that nothing was changed."""
    oldest = plan_input.oldest_slurm
    older = [host for host in plan_input.members if plan_input.slurm_of(host) == oldest < plan_input.slurm_version]
    way = f", or bring {fold(older)} (Slurm {oldest}) to a newer Slurm first: {FAB} upgrade" if older else ""
    return f"{way}; nothing was changed on any host"
