"""When slurmctld and slurmdbd come to rely on each other, and what has to be so by then."""

from __future__ import annotations

from slurmfab.errors import DeployFailed
from slurmfab.promises.conf import PARTITION_LINE, SETTING
from slurmfab.run import Run
from slurmfab.situation import Situation

SLURMDBD = "accounting_storage/slurmdbd"
"""The AccountingStorageType of clusters with a slurmdbd."""

PLACE = ("accountingstoragetype", "accountingstoragehost")
"""The keys that say which slurmdbd it is, as parsed files have them."""

KNOWN_TO_SLURMDBD = ("QOS", "AllowAccounts", "AllowQos", "DenyAccounts", "DenyQos")
"""The keys of a partition that name what slurmdbd has to know by then (slurm.conf(5))."""


def joins_accounting(situation: Situation) -> bool:
    """Whether slurmctld is going to meet a slurmdbd that it has not worked with before, or not of late.

    From Slurm 24.11 slurmdbd numbers its clusters, and slurmctld keeps the number beside the cluster's name; one that
    has had a number from elsewhere would end with CLUSTER ID MISMATCH. Before there is a slurm.conf, the mark in a
    state directory is of some other cluster's, and slurmctld shall say so.
    """
    wanted = situation.conf_wanted.settings
    changes = any(situation.setting_before(key) != wanted.get(key, "") for key in PLACE)
    has_worked = bool(situation.controller_facts.slurm_conf)
    return has_worked and changes and wanted.get(PLACE[0]) == SLURMDBD


def needs_slurmdbd(situation: Situation) -> bool:
    """Whether the new slurm.conf may only come when slurmdbd is there and has been told of all that it names.

    Otherwise slurmctld goes on without slurmdbd for as long as need be, and so does everybody else.
    """
    if situation.cluster.database is None:
        return False
    return not situation.controller_facts.slurm_conf or any(
        one.name.startswith("AccountingStorage")
        if one.kind == SETTING
        else one.kind == PARTITION_LINE and (one.is_added or one.key in KNOWN_TO_SLURMDBD)
        for one in situation.differences
    )


def require_slurmdbd(run: Run, situation: Situation) -> None:
    """Stop if slurmdbd's host is lost, and the new slurm.conf would have slurmctld rely on what it knows.

    Raises:
        DeployFailed: it is.
    """
    lost = [host for host in situation.cluster.database_hosts if host in run.lost]
    if lost and needs_slurmdbd(situation):
        raise DeployFailed(
            f"{lost[0]} is the host of the accounting database, and the new slurm.conf relies on what slurmdbd knows. "
            "So it was left as it is, and nothing else was started."
        )
