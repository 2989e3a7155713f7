"""Whether Slurm's new files may replace those that the controller has: one cluster, known keys, equal on all hosts."""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.objections import VERSION, Objection, objected
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.scratch import unknown_to
from slurmfab.cluster.slurm.gres import KEYS_OF_GRES_CONF
from slurmfab.cluster.slurm.together import contradictions
from slurmfab.cluster.slurm.versions import complaints
from slurmfab.core.impact.slurm_diff import NODE_LINE, Difference
from slurmfab.core.plan.hand_made_files import is_hand_made
from slurmfab.core.plan.phases.configless import refusal, stops_fetching
from slurmfab.core.plan.phases.slurm_conf import has_own_files, is_about_to_fetch
from slurmfab.core.plan.plan_input import PlanInput

RELIED_UPON = (
    *("clustername", "slurmctldhost", "statesavelocation", "slurmctldport", "slurmdport"),
    *("accountingstoragetype", "accountingstoragehost", "accountingstorageport"),
)
"""Keys of slurm.conf that slurmfab reads in the cluster file."""


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

    Most often the cluster file or the host is the wrong one, and the deployment would mix two clusters. slurmctld ends
    with CLUSTER NAME MISMATCH when its state directory belongs to another cluster. `allowed`: names of disruptive
    changes that the user allows, such as `ClusterName`. Raises InputError if the names differ; nothing was changed.
    """
    found = plan_input.setting_before("ClusterName")
    if plan_input.renames_cluster and "ClusterName" not in allowed:
        raise InputError(
            f"{plan_input.cluster.controller} is the controller of the cluster {found}, and the cluster file says "
            f"{plan_input.cluster.name}. Slurm's accounts depend on that name. Set `cluster: {found}`; or, to rename "
            f"{found} with its nodes and jobs: {FAB} deploy --allow ClusterName."
        )


def refuse_kept_files(plan_input: PlanInput) -> None:
    """Refuse, by InputError, kept files (`keep_files`) that are missing, or name other hosts or ports.

    slurmfab would work with other nodes or places than Slurm.
    """
    if not plan_input.keeps_files:
        return
    controller = plan_input.cluster.controller
    found: list[Objection | str] = [
        f"{one.file} of {controller}: {one}" for one in plan_input.kept_differences if is_relied_upon(one)
    ]
    hosts = [host for host in plan_input.facts if has_own_files(plan_input, host)]
    is_ours = not is_hand_made(plan_input.controller_facts.slurm_conf)
    lacking = [host for host in hosts if not (is_ours or plan_input.facts[host].slurm_conf_digest)]
    found += [Objection((*lacking,), "there is no slurm.conf")] if lacking else []
    mode = [one for one in plan_input.facts if is_about_to_fetch(plan_input, one) or stops_fetching(plan_input, one)]
    found += [Objection((*mode,), "slurmd reads its files in another way than `configless` says")] if mode else []
    way = "Slurm's files stay as they are (keep_files), and slurmfab works with what the cluster file says. Correct "
    objected(found, (f"{way}one of both, or remove keep_files; nothing was changed on any host.",))


def is_relied_upon(one: Difference) -> bool:
    """Whether slurmfab's own work depends on what differs: hosts, ports, and the directory of the state."""
    return (one.kind == NODE_LINE and not one.key) or one.name.lower() in RELIED_UPON


def refuse_other_slurm_user(plan_input: PlanInput) -> None:
    """Refuse, by InputError, another SlurmUser than the controller's, whose state and logs are the old one's."""
    found, wanted = plan_input.setting_before("SlurmUser"), plan_input.cluster.slurm_user
    if not found and (wanted == "slurm" or not plan_input.controller_facts.slurm_conf):
        return
    found = found or "root"
    uid = next((uid for uid, name in plan_input.controller_facts.uids.items() if name == wanted), None)
    if found.partition("(")[0] not in (wanted, str(uid)):
        state = plan_input.cluster.state_directory
        raise InputError(
            f"SlurmUser is {found} on {plan_input.cluster.controller}, and slurm_user in the cluster file is {wanted}. "
            f"Set slurm_user: {found}; or change the user by hand: stop slurmctld and slurmdbd, chown -R {wanted}: "
            f"{state}, the same with their logs and slurmdbd.conf, set SlurmUser={wanted} in slurm.conf of all hosts "
            f"and in slurmdbd.conf, and User={wanted} for their units, and start them."
        )


def refuse_uneven_files(plan_input: PlanInput, hosts: Collection[str]) -> None:
    """Refuse, by InputError, a run that would leave other hosts with another slurm.conf than the controller's."""
    before = plan_input.controller_facts.slurm_conf
    if not before or plan_input.files_stay or set(plan_input.cluster.hosts) <= set(hosts):
        return
    cluster = plan_input.cluster
    changes = before != dict(plan_input.files)["slurm.conf"] or (cluster.configless and plan_input.differences)
    changes = changes or plan_input.site_differences
    if changes and (reason := refusal(plan_input, hosts)):
        raise InputError(reason)


def refuse_closed_nodes_without_control_groups(plan_input: PlanInput) -> None:
    """Refuse, by InputError, nodes for users with jobs where Slurm cannot tell which processes are a job's."""
    if plan_input.cluster.node_logins != "with_job":
        return
    settings = plan_input.conf_wanted.settings
    flags = {flag.strip().lower() for flag in settings.get("prologflags", "").split(",")}
    if not flags & {"contain", "x11"} or settings.get("proctracktype") != "proctrack/cgroup":
        facts = plan_input.facts
        poor = [host for host in plan_input.compute_nodes if host in facts and not facts[host].cgroup.is_usable]
        told = "node_logins: with_job needs control groups on every compute node, and "
        told += "it has none that Slurm can use" if poor else "at least one has none that Slurm can use"
        told += ", so nobody could log in with a job."
        objected([Objection((*poor,), told) if poor else told])


def refuse_unknown_keys(plan_input: PlanInput) -> None:
    """Refuse keys and values that the installed Slurm does not know, by KeysRefused, before files are sent.

    So are values that contradict each other, unless they do so in the present slurm.conf.
    """
    cluster = plan_input.cluster
    node_keys = cluster.node_keys - {*KEYS_OF_GRES_CONF}
    partition_keys = {key for partition in cluster.partitions for key in partition.settings}
    found: list[str] = []
    of_newest: tuple[str, ...] = ()
    for version in sorted({plan_input.oldest_slurm, plan_input.slurm_version}):
        of_newest = complaints(version, cluster.slurm_conf, cluster.cgroup_conf, node_keys, partition_keys)
        of_newest += tuple(unknown_to(cluster.private_tmp, version))
        found += of_newest
    if cluster.database:
        of_slurmdbd = plan_input.slurm_of(cluster.database.host)
        found += complaints(of_slurmdbd, {}, {}, (), (), slurmdbd_conf=cluster.slurmdbd_conf)
    there = {*contradictions(plan_input.slurm_version, plan_input.conf_before)}
    found += [one for one in contradictions(plan_input.slurm_version, plan_input.conf_wanted) if one not in there]
    if found:
        refused = KeysRefused(tuple(found), f"Change that in the cluster file{or_upgrade(plan_input)}.")
        older = [host for host in plan_input.members if plan_input.slurm_of(host) < plan_input.slurm_version]
        keys = {one.partition(":")[0].rpartition(".")[2] for one in found}
        # A key that is new in the cluster file is a mistake there; else a host says that it has an older Slurm now.
        if older and not of_newest and all(map(plan_input.setting_before, keys)):
            told = f"its Slurm is {plan_input.oldest_slurm}, as it says, which does not know this: {' '.join(found)}"
            refused.objections = (Objection((*older,), f"{told} {FAB} upgrade brings a newer one.", about=VERSION),)
        raise refused


def or_upgrade(plan_input: PlanInput) -> str:
    """The other way out, where hosts have a Slurm older than slurmctld, and that nothing was changed."""
    oldest = plan_input.oldest_slurm
    older = [host for host in plan_input.members if plan_input.slurm_of(host) == oldest < plan_input.slurm_version]
    way = f", or bring {fold(older)} (Slurm {oldest}) to a newer Slurm first: {FAB} upgrade" if older else ""
    return f"{way}; nothing was changed on any host"
