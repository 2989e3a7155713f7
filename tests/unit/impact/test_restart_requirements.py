"""What each kind of change needs, by version: the table row by row."""

from __future__ import annotations

import pytest

from slurmfab.cluster.slurm.keys import CGROUP_CONF, NODE, SLURM_CONF
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.restart_requirements import RULES, Requirement, need
from slurmfab.core.impact.slurm_diff import Difference

VERSIONS = ("22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
NOTHING, RECONFIGURE, CTLD, SLURMD, BOTH, DRAINED, NO_JOBS = Requirement
"""In their order."""


def setting(name: str, actual: str = "x", wanted: str = "y", file: str = "slurm.conf") -> Difference:
    return Difference(file, "setting", name, actual=actual, wanted=wanted)


def node(key: str, actual: str = "1", wanted: str = "2") -> Difference:
    return Difference("slurm.conf", "node", "n1", key, actual, wanted, ("n1",))


def always(one: Requirement) -> tuple[Requirement, ...]:
    return (one,) * len(VERSIONS)


def until_23_02(old: Requirement) -> tuple[Requirement, ...]:
    return (old,) * 2 + (RECONFIGURE,) * 6


def until_24_05(old: Requirement) -> tuple[Requirement, ...]:
    return (old,) * 4 + (RECONFIGURE,) * 4


TABLE = {
    "comments": (Difference("slurm.conf", "text", "comments or order"), always(NOTHING)),
    "comments of gres.conf": (Difference("gres.conf", "text", "comments or order"), always(NOTHING)),
    "a file of the site's own": (Difference("mpi.conf", "file", "mpi.conf", "", "there", "there"), until_24_05(BOTH)),
    "SrunProlog": (setting("SrunProlog"), always(NOTHING)),
    "CliFilterPlugins": (setting("CliFilterPlugins"), always(NOTHING)),
    "SlurmdTimeout": (setting("SlurmdTimeout"), always(RECONFIGURE)),
    # read_config.c of 22.05: “Changing PreemptType from … to …”, and gang scheduling goes on or off.
    "PreemptType": (setting("PreemptType", "", "preempt/qos"), always(RECONFIGURE)),
    "PreemptMode": (setting("PreemptMode", "REQUEUE", "SUSPEND,GANG"), always(RECONFIGURE)),
    "JobSubmitPlugins": (setting("JobSubmitPlugins", "", "lua"), always(RECONFIGURE)),
    "AccountingStorageTRES": (setting("AccountingStorageTRES", "gres/gpu", "license/matlab"), until_23_02(CTLD)),
    "Licenses": (setting("Licenses", "matlab:1", "matlab:2"), always(RECONFIGURE)),
    "MailProg": (setting("MailProg", "/bin/true", "/usr/bin/mail"), always(RECONFIGURE)),
    "a key of a newer Slurm": (setting("KeyOfTheFuture"), always(RECONFIGURE)),
    "SchedulerParameters": (setting("SchedulerParameters", "bf_interval=30", "bf_interval=60"), always(RECONFIGURE)),
    "no_backup_scheduling": (
        setting("SchedulerParameters", "bf_continue", "bf_continue,no_backup_scheduling"),
        until_23_02(CTLD),
    ),
    "enable_configless": (setting("SlurmctldParameters", "enable_configless", ""), until_23_02(CTLD)),
    "AccountingStorageEnforce": (setting("AccountingStorageEnforce"), until_23_02(CTLD)),
    "JobContainerType": (setting("JobContainerType"), always(DRAINED)),
    "JobContainerType as it is anyway": (setting("JobContainerType", "", "job_container/none"), always(NOTHING)),
    "BasePath": (setting("BasePath", file="job_container.conf"), always(DRAINED)),
    "Dirs": (setting("Dirs", file="job_container.conf"), always(RECONFIGURE)),
    "MaxJobCount": (setting("MaxJobCount"), until_23_02(CTLD)),
    "MaxNodeCount": (setting("MaxNodeCount"), until_23_02(CTLD)),
    "PowerPlugin": (setting("PowerPlugin"), until_23_02(CTLD)),
    "SchedulerType": (setting("SchedulerType"), until_23_02(CTLD)),
    "SelectTypeParameters": (setting("SelectTypeParameters"), until_23_02(CTLD)),
    "SlurmctldHost": (setting("SlurmctldHost"), until_23_02(CTLD)),
    "SlurmctldHost to IPv6": (setting("SlurmctldHost", "c(10.0.0.1)", "c(fd83::1)"), (CTLD,) * 2 + (DRAINED,) * 6),
    "CoreSpecPlugin": (setting("CoreSpecPlugin"), until_23_02(SLURMD)),
    "GresTypes": (setting("GresTypes"), until_23_02(BOTH)),
    "PluginDir": (setting("PluginDir"), until_23_02(BOTH)),
    "SlurmUser": (setting("SlurmUser"), until_23_02(BOTH)),
    "SlurmdUser": (setting("SlurmdUser"), until_23_02(BOTH)),
    "StateSaveLocation": (setting("StateSaveLocation"), always(CTLD)),
    "SlurmctldPort": (setting("SlurmctldPort"), always(BOTH)),
    "SlurmdPort": (setting("SlurmdPort"), always(BOTH)),
    "SlurmctldPort as it is anyway": (setting("SlurmctldPort", "", "6817"), always(NOTHING)),
    "SlurmctldPort as it would be": (setting("SlurmctldPort", "6817", ""), always(NOTHING)),
    "CommunicationParameters": (setting("CommunicationParameters"), always(BOTH)),
    "AuthInfo": (setting("AuthInfo"), always(BOTH)),
    "AuthAltTypes": (setting("AuthAltTypes"), always(BOTH)),
    "AuthAltParameters": (setting("AuthAltParameters"), always(BOTH)),
    "ClusterName": (setting("ClusterName"), always(BOTH)),
    "AccountingStorageType": (setting("AccountingStorageType"), always(BOTH)),
    "AccountingStorageType as it is anyway": (
        setting("AccountingStorageType", "", "accounting_storage/none"),
        always(NOTHING),
    ),
    "AccountingStorageHost": (setting("AccountingStorageHost"), always(BOTH)),
    "AuthType": (setting("AuthType"), always(NO_JOBS)),
    "CredType": (setting("CredType"), always(NO_JOBS)),
    "SwitchType": (setting("SwitchType"), always(NO_JOBS)),
    "TLSType": (setting("TLSType"), always(NO_JOBS)),
    "SelectType": (setting("SelectType"), always(NO_JOBS)),
    "SelectType by default": (setting("SelectType", "", "select/cons_tres"), (NO_JOBS,) * 2 + (NOTHING,) * 6),
    "SlurmdSpoolDir": (setting("SlurmdSpoolDir"), always(DRAINED)),
    "ProctrackType": (setting("ProctrackType"), always(DRAINED)),
    "JobAcctGatherType": (setting("JobAcctGatherType"), always(DRAINED)),
    "cgroup.conf": (setting("ConstrainCores", file="cgroup.conf"), always(RECONFIGURE)),
    "gres.conf": (Difference("gres.conf", "devices", "n1", actual="x", wanted="y"), until_24_05(BOTH)),
    "node added": (Difference("slurm.conf", "node", "n1", wanted="there", nodes=("n1",)), until_24_05(BOTH)),
    "node removed": (Difference("slurm.conf", "node", "n1", actual="there", nodes=("n1",)), always(DRAINED)),
    "node's memory": (node("RealMemory"), until_24_05(BOTH)),
    "node's address": (node("NodeAddr"), until_24_05(BOTH)),
    "node's CPUs": (node("CPUs"), always(DRAINED)),
    "node's cores": (node("CoresPerSocket"), always(DRAINED)),
    "node's first Gres": (node("Gres", "", "gpu:2"), until_24_05(BOTH)),
    "node's other Gres": (node("Gres", "gpu:2", "gpu:4"), always(DRAINED)),
    "partition added": (Difference("slurm.conf", "partition", "q", wanted="there"), always(RECONFIGURE)),
    "partition changed": (Difference("slurm.conf", "partition", "q", "MaxTime", "1", "2"), always(RECONFIGURE)),
    "partition's nodes": (Difference("slurm.conf", "partition", "q", "Nodes", "n1", "n2"), always(RECONFIGURE)),
    "partition removed": (Difference("slurm.conf", "partition", "q", actual="there"), always(NO_JOBS)),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_change_on_each_version_needs_this(name: str) -> None:
    difference, expected = TABLE[name]
    found = {version: need(difference, SlurmVersion.parse(version)) for version in VERSIONS}
    assert found == dict(zip(VERSIONS, expected, strict=True))


def test_every_row_is_about_some_change_of_the_table() -> None:
    told = [
        next((row for row in RULES if row.is_about(difference, SlurmVersion.parse(version))), None)
        for difference, _ in TABLE.values()
        for version in VERSIONS
    ]
    assert [row for row in RULES if row not in told] == []


def test_every_key_that_the_rows_name_is_one_of_slurms() -> None:
    known = {key.name for table in (SLURM_CONF, NODE, CGROUP_CONF) for key in table.values()}
    assert {name for row in RULES for name in row.names} - known == {"BasePath"}  # job_container.conf(5)
