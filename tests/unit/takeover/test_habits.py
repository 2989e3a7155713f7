"""Hand-made configurations in other people's habits: all their files stay as they are, on old and new Slurm."""

from __future__ import annotations

import pytest
from found_clusters import FOUR_CORES, GPUS, RELEASES, conf, found

from slurmfab.cluster.inventory import loading
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.survey import survey
from slurmfab.core.plan.plan_input import PlanInput

HEAD = """\
SlurmUser=slurm
SlurmctldHost=ctl
StateSaveLocation=/var/spool/slurmctld
"""
HABITS = {
    "configless with gang scheduling and sleeping nodes": """\
ClusterName=gang
SlurmctldParameters=enable_configless,idle_on_node_suspend
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SuspendProgram=/usr/local/sbin/node-off
ResumeProgram=/usr/local/sbin/node-on
SuspendTime=1800
SuspendExcNodes=n1
NodeName=n[1-2] CPUs=4 RealMemory=15000
PartitionName=long Nodes=ALL OverSubscribe=FORCE:1 PriorityTier=1 Default=YES
PartitionName=short Nodes=ALL OverSubscribe=FORCE:1 PriorityTier=10
""",
    "licences, preemption, node sets and tokens": """\
ClusterName=tree
Licenses=matlab:10,ansys:4@server
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/var/spool/slurmctld/jwt_hs256.key
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeSet=fast Feature=ib
NodeName=DEFAULT CPUs=4 RealMemory=15000
NodeName=n1 Feature=ib
NodeName=n2
PartitionName=DEFAULT MaxTime=2-0
PartitionName=main Nodes=fast,n2 Default=YES PriorityTier=1
PartitionName=urgent Nodes=fast PriorityTier=5 PreemptMode=OFF
""",
    "a cluster toolkit with an empty value": """\
ClusterName=toolkit
ProctrackType=proctrack/linuxproc
PropagateResourceLimitsExcept=MEMLOCK
JobCompType=jobcomp/filetxt
NodeName=n[1-2] Sockets=2 CoresPerSocket=1 ThreadsPerCore=2 State=UNKNOWN
PartitionName=normal Nodes=n[1-2] Default=YES MaxTime=24:00:00 State=UP OverSubscribe=EXCLUSIVE
SlurmctldParameters=enable_configless
HealthCheckProgram=/usr/sbin/nhc
HealthCheckInterval=300
""",
    "GPU servers with shards": """\
ClusterName=servers
TaskPlugin=affinity,cgroup
PrologFlags=Alloc,Serial,X11
UsePAM=1
GresTypes=gpu,shard
LaunchParameters=enable_nss_slurm,use_interactive_step
NodeName=n[1-2] CPUs=4 RealMemory=15000 Gres=gpu:a100:4,shard:16 Feature=gpu State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES DefMemPerCPU=0 State=UP OverSubscribe=NO MaxTime=INFINITE
""",
}
GRES = "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3]\nNodeName=n[1-2] Name=shard Count=16\n"


@pytest.mark.parametrize("slurm", RELEASES)
@pytest.mark.parametrize("habit", HABITS)
def test_files_of_a_habit_when_imported_then_all_stay_as_they_are(habit: str, slurm: str) -> None:
    has_gpus = "Gres=" in HABITS[habit]
    files = (conf("slurm.conf", HEAD + HABITS[habit]), *((conf("gres.conf", GRES),) if has_gpus else ()))
    facts = {"hardware": FOUR_CORES, **({"gpus": GPUS} if has_gpus else {})}
    cluster = found(slurm, dict.fromkeys(("ctl", "n1", "n2"), files), hosts={"n1": facts, "n2": facts})
    taken = survey(cluster)
    known = loading.parse(taken.text, "cluster.yaml")
    plan = PlanInput(known, first_lock(known, OldCluster(cluster)), cluster.facts)
    assert [one for one in taken.remarks if "The first deployment" in one or "will refuse" in one] == []
    assert plan.hand_made["slurm.conf"] == HEAD + HABITS[habit]
    assert plan.differences == ()
