"""Partitions, nodes and limits, from what Slurm 22.05 and 24.11 print."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.programs.user_tools import asking, limits, nodes

PARTITION = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO "
    "ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=4 TotalNodes=2 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED"
)
NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=2 CPUEfctv=4 CPUTot=8 CPULoad=8.85 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:a100:4(S:0-1),shard:8 GresDrain=N/A GresUsed=gpu:a100:2(IDX:0-1),shard:0 "
    "NodeAddr=10.70.147.11 NodeHostName=n1 Version=24.11.5 OS=Linux 6.18 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=23382 "
    "AllocMem=100 FreeMem=17906 Sockets=1 Boards=1 State=MIXED ThreadsPerCore=1 Partitions=gpu,spare "
    "AllocTRES=cpu=2,mem=100M,gres/gpu=2"
)


@pytest.mark.parametrize(
    ("old", "new", "name", "value"),
    [
        ("", "", "name", "gpu"),
        ("", "", "is_default", True),
        ("Default=YES", "Default=NO", "is_default", False),
        ("", "", "max_seconds", None),
        ("MaxTime=UNLIMITED", "MaxTime=1-00:00:00", "max_seconds", 86400),
        ("", "", "default_seconds", None),
        ("DefaultTime=NONE", "DefaultTime=00:10:00", "default_seconds", 600),
        ("", "", "max_nodes", None),
        ("MaxNodes=UNLIMITED", "MaxNodes=4", "max_nodes", 4),
        ("MaxCPUsPerNode=UNLIMITED", "MaxCPUsPerNode=6", "max_cpus_per_node", 6),
        ("DefMemPerNode=UNLIMITED", "DefMemPerCPU=2000", "def_mem_per_cpu", 2000),
        ("MaxMemPerNode=UNLIMITED", "MaxMemPerNode=64000", "max_mem_per_node", 64000),
        ("", "", "max_mem_per_cpu", None),
        ("", "", "allow_groups", ()),
        ("AllowGroups=ALL", "AllowGroups=lab,gpu", "allow_groups", ("lab", "gpu")),
        ("", "", "allow_accounts", ()),
        ("AllowAccounts=ALL", "AllowAccounts=physics", "allow_accounts", ("physics",)),
        ("AllowAccounts=ALL", "DenyAccounts=maths", "deny_accounts", ("maths",)),
        ("AllowQos=ALL", "AllowQos=high", "allow_qos", ("high",)),
        ("", "", "qos", ""),
        ("QoS=N/A", "QoS=gpus", "qos", "gpus"),
        ("", "", "nodes", "n[1-2]"),
        ("Nodes=n[1-2]", "Nodes=(null)", "nodes", ""),
        ("State=UP", "State=DOWN", "takes_jobs", True),
        ("State=UP", "State=DOWN", "starts_jobs", False),
        ("State=UP", "State=DRAIN", "takes_jobs", False),
        ("State=UP", "State=DRAIN", "starts_jobs", True),
    ],
)
def test_a_partition_has_its_limits(old: str, new: str, name: str, value: object) -> None:
    (one,) = nodes.read_partitions(PARTITION.replace(old, new) + "\n")
    assert getattr(one, name) == value


@pytest.mark.parametrize(
    ("old", "new", "name", "value"),
    [
        ("", "", "name", "n1"),
        ("", "", "cpus", 4),
        (" CPUEfctv=4", "", "cpus", 8),
        ("", "", "cpus_used", 2),
        ("", "", "memory", 23382),
        ("", "", "memory_used", 100),
        ("", "", "gpus", {"a100": 4}),
        ("", "", "gpus_used", {"a100": 2}),
        ("GresUsed=gpu:a100:2(IDX:0-1)", "GresUsed=gpu:a100:0(IDX:N/A)", "gpus_used", {}),
        ("Gres=gpu:a100:4(S:0-1),shard:8", "Gres=(null)", "gpus", {}),
        ("", "", "features", ()),
        ("ActiveFeatures=(null)", "ActiveFeatures=a,b", "features", ("a", "b")),
        ("", "", "partitions", ("gpu", "spare")),
        ("", "", "is_free", False),
        ("CPUAlloc=2", "CPUAlloc=0", "is_free", False),
    ],
)
def test_a_node_has_what_jobs_can_have(old: str, new: str, name: str, value: object) -> None:
    (one,) = nodes.read(NODE.replace(old, new) + "\n")
    assert getattr(one, name) == value


@pytest.mark.parametrize(
    ("state", "is_free"), [("IDLE", True), ("IDLE+DRAIN", False), ("IDLE*", False), ("IDLE~", True), ("DOWN", False)]
)
def test_a_node_is_free_when_it_is_idle_and_gets_jobs(state: str, is_free: bool) -> None:
    (one,) = nodes.read(NODE.replace("State=MIXED", f"State={state}").replace("CPUAlloc=2", "CPUAlloc=0"))
    assert one.is_free == is_free


def test_limits_are_those_that_are_set() -> None:
    assert limits.associations("physics||high|normal,high|2|-1|||||||gres/gpu=8|\nodd|row\n") == (
        ("physics", "", "high", ("normal", "high"), {"MaxJobs": "2", "GrpTRES": "gres/gpu=8"}),
    )
    assert limits.qos("normal|DenyOnLimit|02:00:00|||||||gres/gpu=2|||||||\n") == (
        ("normal", ("DenyOnLimit",), {"MaxWall": "02:00:00", "MaxTRESPU": "gres/gpu=2"}),
    )


def test_accounts_when_a_database_serves_several_clusters_then_only_those_of_this_one_are_asked_for() -> None:
    assert "cluster=titanic" in asking.associations_question("ada", "titanic").argv
    assert not [word for word in asking.associations_question("ada").argv if word.startswith("cluster=")]
