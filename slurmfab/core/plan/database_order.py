"""Whether a new slurm.conf makes slurmctld depend on slurmdbd, and what slurmdbd must know before."""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.base.errors import DeployFailed
from slurmfab.cluster.slurm.meaning import is_same_setting
from slurmfab.core.impact.slurm_diff import PARTITION_LINE, SETTING
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.client.commands import PARTITION

SLURMDBD = "accounting_storage/slurmdbd"  # the AccountingStorageType of clusters with a slurmdbd

PLACE = ("accountingstoragetype", "accountingstoragehost")
"""The keys that select the slurmdbd, in lower case as in parsed files."""

KNOWN_TO_SLURMDBD = ("QOS", "AllowAccounts", "AllowQos", "DenyAccounts", "DenyQos")
"""The keys of a partition whose values slurmdbd must know first: accounts and QOS (slurm.conf(5))."""


def joins_accounting(plan_input: PlanInput) -> bool:
    """Whether the new slurm.conf connects an existing slurmctld to another slurmdbd than its actual slurm.conf does.

    From Slurm 24.11, slurmdbd gives each cluster an ID, and slurmctld stores it beside the cluster's name in its state
    directory. A slurmctld with an ID from another slurmdbd exits with CLUSTER ID MISMATCH. Without a slurm.conf on the
    controller the answer is no: a stored ID then belongs to some other cluster, and slurmctld has to report it.
    """
    wanted = plan_input.conf_wanted.settings
    changes = any(
        not is_same_setting(key, plan_input.setting_before(key), wanted.get(key, ""), plan_input.is_same_host)
        for key in PLACE
    )
    has_worked = bool(plan_input.controller_facts.slurm_conf)
    return has_worked and changes and wanted.get(PLACE[0]) == SLURMDBD


def needs_slurmdbd(plan_input: PlanInput) -> bool:
    """Whether slurmdbd must run, and know all accounts and QOS, before the new slurm.conf is installed.

    It must for the first slurm.conf, for changes of AccountingStorage keys, and for partitions that are added or name
    other accounts or QOS. In other cases slurmctld works without slurmdbd until that is back.
    """
    if plan_input.cluster.database is None:
        return False
    return not plan_input.controller_facts.slurm_conf or any(
        one.name.startswith("AccountingStorage")
        if one.kind == SETTING
        else one.kind == PARTITION_LINE and one.name != PARTITION and (one.is_added or one.key in KNOWN_TO_SLURMDBD)
        for one in plan_input.differences
    )


def require_slurmdbd(plan_input: PlanInput, failed: Collection[str]) -> None:
    """Stop, by DeployFailed, if slurmdbd's host failed while the new slurm.conf makes slurmctld depend on it."""
    lost = [host for host in plan_input.cluster.database_hosts if host in failed]
    if lost and needs_slurmdbd(plan_input):
        raise DeployFailed(
            f"{lost[0]} is the host of the accounting database, and the new slurm.conf relies on what slurmdbd knows. "
            "So it was left as it is, and nothing else was started."
        )
