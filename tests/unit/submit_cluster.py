"""A cluster for submit scripts, which exists only as what Slurm would print about it."""

from __future__ import annotations

from pathlib import Path

from slurmfab.on_hosts.programs.user_tools import limits, lint_text, nodes
from slurmfab.on_hosts.programs.user_tools.cluster import Cluster

PARTITION = (
    "PartitionName={} AllowGroups={} AllowAccounts={} AllowQos=ALL Default={} QoS={} DefaultTime={} Hidden={}"
    " MaxNodes={} MaxTime={} MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes={} State={} TotalNodes=1 MaxMemPerNode=UNLIMITED"
)
PARTITIONS = "\n".join(
    PARTITION.format(*words.split())
    for words in (
        "batch ALL ALL YES N/A 01:00:00 NO UNLIMITED 1-00:00:00 cn[1-4] UP",
        "gpu ALL ALL NO gpuq NONE NO 2 12:00:00 gpu[1-2] UP",
        "staff staff ALL NO N/A 01:00:00 NO UNLIMITED UNLIMITED cn[1-4] UP",
        "physics ALL physics NO N/A 01:00:00 NO UNLIMITED UNLIMITED cn4 UP",
        "old ALL ALL NO N/A 01:00:00 NO UNLIMITED UNLIMITED cn1 INACTIVE",
        "later ALL ALL NO N/A 01:00:00 NO UNLIMITED UNLIMITED cn1 DOWN",
        "slurmfab root ALL NO N/A 01:00:00 YES UNLIMITED 01:00:00 cn[1-4],gpu[1-2] UP",
    )
)
NODE = (
    "NodeName={0} CPUAlloc=0 CPUEfctv={1} CPUTot={1} AvailableFeatures={2} ActiveFeatures={2} Gres={3} RealMemory={4}"
    " AllocMem=0 State=IDLE Partitions={5} CfgTRES=cpu=1 AllocTRES="
)
NODES = "\n".join(
    NODE.format(*words.split())
    for words in (
        "cn1 16 cascadelake (null) 64000 batch,staff,old,later,slurmfab",
        "cn2 16 cascadelake (null) 64000 batch,staff,slurmfab",
        "cn3 16 cascadelake (null) 64000 batch,staff,slurmfab",
        "cn4 32 icelake (null) 128000 batch,staff,physics,slurmfab",
        "gpu1 64 a100 gpu:a100:4(S:0-1) 512000 gpu,slurmfab",
        "gpu2 32 v100 gpu:v100:2,scratch:400 1024000 gpu,slurmfab",
    )
)
QOS = "\n".join(
    "|".join({**dict.fromkeys(limits.QOS_FIELDS, ""), **row}.values())
    for row in (
        {"Name": "normal", "MaxTRESPU": "cpu=40"},
        {"Name": "gpuq", "GrpTRES": "gres/gpu=5"},
        {"Name": "short", "MaxWall": "00:30:00", "Flags": "DenyOnLimit"},
        {"Name": "vip"},
    )
)
ASSOCIATIONS = "\n".join(
    "|".join({**dict.fromkeys(limits.ASSOCIATION_FIELDS, ""), **row}.values())
    for row in ({"Account": "theory", "DefaultQOS": "normal", "QOS": "normal,short", "MaxTRES": "node=3"},)
)
CLUSTER = Cluster(
    partitions=nodes.read_partitions(PARTITIONS),
    nodes=nodes.read(NODES),
    associations=limits.associations(ASSOCIATIONS),
    qos=limits.qos(QOS),
    groups=frozenset({"users"}),
    user="ann",
    enforced=frozenset({"associations", "limits", "qos"}),
    version="24.11",
    most_indices=1001,
    account_limits={"theory": (("theory", "mem=400000M"), ("physics", "cpu=30"))},
)


class Everything(lint_text.Host):
    """A host that has what the scripts of the table name."""

    def interpreter(self, path: str) -> str:
        return "" if path in ("/bin/bash", "/bin/sh", "/usr/bin/env") else "is not there"

    def in_path(self, name: str) -> bool:
        return name in ("python3", "bash", "sh", "id", "true")

    def target(self, path: str) -> str:
        return {"/bin/sh": "dash"}.get(path, Path(path).name)
