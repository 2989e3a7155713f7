"""What Slurm's own keys mean, in a line each with an example, for editors and for the reference of the cluster file.

The keys of node and partition lines and of gres.conf, and the limits of sacctmgr. Source: slurm.conf(5), gres.conf(5)
and sacctmgr(1) of Slurm 22.05 to 26.05. Keys of the other files are named with their manual page alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class KeyText(NamedTuple):
    """What a key means, and a value that it may have."""

    meaning: str
    example: str


def _texts(table: str) -> Mapping[str, KeyText]:
    """The texts by key, from lines of `Key | example | meaning`."""
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return {key: KeyText(meaning, example) for key, example, meaning in rows}


NODE = _texts("""
    AutoDetect | nvml | How slurmd finds the GPUs of these nodes: nvml, nvidia (Slurm 24.11), rsmi, oneapi, or off.
    BcastAddr | 10.2.0.1 | Address for sbcast's traffic, where it is not that of slurmd.
    Boards | 1 | Number of baseboards of a node.
    CoreSpecCount | 2 | Cores of a node that Slurm and the system have for themselves.
    CoresPerSocket | 16 | Cores in a processor socket.
    CpuBind | cores | How tasks are bound to CPUs by default: none, socket, ldom, core or thread.
    CPUs | 64 | Logical processors of a node.
    CPUSpecList | 0-1 | Processors that Slurm and the system have for themselves.
    Feature | bigmem,ib | Words by which jobs choose nodes (--constraint).
    Features | bigmem,ib | The same as Feature.
    File | /dev/accel/accel[0-7] | Device files that are GPUs of vendors that slurmfab does not know (gres.conf).
    Gres | gpu:a100:4 | Generic resources of each node: NAME[:TYPE]:COUNT, with commas.
    GresConf | | Settings of gres.conf for these nodes.
    MemSpecLimit | 2048 | Memory in MiB that Slurm and the system have for themselves.
    Parameters | | Further settings of a node.
    Port | 6818 | Port of slurmd on these nodes.
    Procs | 64 | The same as CPUs.
    RealMemory | 515000 | Memory of a node in MiB that jobs may use.
    Reason | broken fan | Why a node is in a state such as DOWN.
    RestrictedCoresPerGPU | 4 | Cores per GPU that only jobs with GPUs may use.
    Sockets | 2 | Processor sockets of a node.
    SocketsPerBoard | 2 | Processor sockets on each baseboard.
    SuspendTime | 1800 | Seconds without jobs after which these nodes are switched off.
    ThreadsPerCore | 2 | Threads of a core.
    TmpDisk | 100000 | Size of the node's disk for temporary files in MiB.
    Topology | default:sw1 | The place of these nodes in topologies.
    TRESWeights | CPU=1.0,Mem=0.25G | How resources count when nodes are compared.
    Weight | 10 | Jobs get the nodes with the lowest weight first.
""")
"""Keys of a group of nodes: of a NodeName line (slurm.conf(5)), and of gres.conf(5)."""

PARTITION = _texts("""
    AllocNodes | login01 | Hosts from which jobs may be submitted to the partition.
    AllowAccounts | physics,theory | Accounts whose jobs may run here; all by default.
    AllowGroups | gpuusers | Groups of users who may use the partition; all by default.
    AllowQos | normal,urgent | QOS whose jobs may run here; all by default.
    Alternate | batch | Partition that gets the jobs while this one is not available.
    CpuBind | cores | How tasks are bound to CPUs by default: none, socket, ldom, core or thread.
    Default | YES | Whether jobs without --partition come here.
    DefaultTime | 01:00:00 | Time limit of jobs that ask for none.
    DefCPUPerGPU | 8 | CPUs for each GPU where a job does not say.
    DefMemPerCPU | 4000 | Memory in MiB for each CPU where a job does not say.
    DefMemPerGPU | 60000 | Memory in MiB for each GPU where a job does not say.
    DefMemPerNode | 16000 | Memory in MiB on each node where a job does not say.
    DenyAccounts | guests | Accounts whose jobs may not run here.
    DenyQos | urgent | QOS whose jobs may not run here.
    DisableRootJobs | YES | Whether root may not run jobs here.
    Exclusive | | Whom nodes are shared with.
    ExclusiveTopo | YES | Whether a job has a block of the topology for itself.
    ExclusiveUser | YES | Whether a node runs jobs of one user at a time.
    GraceTime | 60 | Seconds between the signal and the end of a preempted job.
    Hidden | YES | Whether users who may not use the partition do not see it.
    LLN | YES | Whether jobs go to the least loaded nodes first.
    MaxCPUsPerNode | 48 | Most CPUs of a node that jobs of the partition may use.
    MaxCPUsPerSocket | 24 | Most CPUs of a socket that jobs of the partition may use.
    MaxMemPerCPU | 8000 | Most memory in MiB for each CPU.
    MaxMemPerNode | 256000 | Most memory in MiB that a job may have on each node.
    MaxNodes | 8 | Most nodes of a job.
    MaxTime | 2-00:00:00 | Longest time limit of a job: minutes, or days-hours:minutes:seconds.
    MinNodes | 2 | Fewest nodes of a job.
    OverSubscribe | NO | Whether jobs share CPUs: NO, YES, EXCLUSIVE (whole nodes) or FORCE.
    OverTimeLimit | 5 | Minutes by which a job may exceed its time limit.
    PowerDownOnIdle | YES | Whether a node is switched off as soon as its jobs have ended.
    PreemptMode | REQUEUE | What happens to jobs that give way: OFF, CANCEL, REQUEUE, SUSPEND or GANG.
    Priority | 10 | PriorityJobFactor and PriorityTier at once.
    PriorityJobFactor | 10 | How much the partition adds to a job's priority.
    PriorityTier | 10 | Jobs of higher tiers start first, and may preempt those of lower ones.
    QOS | gpu | QOS whose limits hold for all jobs of the partition.
    ReqResv | YES | Whether jobs need a reservation.
    ResumeTimeout | 900 | Seconds until a node that is switched on answers.
    RootOnly | YES | Whether only root may submit jobs here.
    SelectTypeParameters | CR_Core_Memory | What jobs get here: CR_CPU, CR_Core, CR_Socket, with or without _Memory.
    Shared | NO | The same as OverSubscribe.
    State | UP | Whether jobs run here: UP, DOWN, DRAIN or INACTIVE.
    SuspendTime | 1800 | Seconds without jobs after which nodes are switched off.
    SuspendTimeout | 120 | Seconds until a node is off.
    Topology | default | The topology by which nodes are chosen.
    TRESBillingWeights | CPU=1.0,Mem=0.25G,GRES/gpu=8 | How resources count for billing, and for fair share.
""")
"""Keys of a PartitionName line (slurm.conf(5)) besides PartitionName and Nodes."""

LIMITS = _texts("""
    AdminLevel | Operator | What a user may change in Slurm: None, Operator or Admin.
    DefaultQOS | normal | QOS of jobs that name none.
    Fairshare | 20 | Share of the cluster, compared with the neighbours in the tree of accounts.
    Flags | DenyOnLimit,NoDecay | Flags of a QOS; DenyOnLimit refuses jobs beyond the limits at once.
    GraceTime | 00:01:00 | Time between the signal and the end of a preempted job.
    GrpJobs | 100 | Most running jobs of all together.
    GrpJobsAccrue | 50 | Most waiting jobs of all together that gain priority by age.
    GrpSubmitJobs | 500 | Most waiting and running jobs of all together.
    GrpTRES | cpu=512,gres/gpu=16 | Most resources of all running jobs together.
    GrpTRESMins | cpu=1000000 | Resources times minutes that all jobs together may have used.
    GrpTRESRunMins | cpu=200000 | Resources times minutes that all running jobs still have to run.
    GrpWall | 30-00:00:00 | Wall time that all jobs together may have used.
    LimitFactor | 2 | Factor for the limits of accounts in this QOS.
    MaxJobs | 20 | Most running jobs of a user.
    MaxJobsAccrue | 10 | Most waiting jobs of a user that gain priority by age.
    MaxJobsAccruePerAccount | 10 | Most waiting jobs of an account that gain priority by age.
    MaxJobsAccruePerUser | 10 | Most waiting jobs of a user that gain priority by age.
    MaxJobsPerAccount | 40 | Most running jobs of an account.
    MaxJobsPerUser | 20 | Most running jobs of a user.
    MaxSubmitJobs | 200 | Most waiting and running jobs of a user.
    MaxSubmitJobsPerAccount | 400 | Most waiting and running jobs of an account.
    MaxSubmitJobsPerUser | 200 | Most waiting and running jobs of a user.
    MaxTRESMinsPerJob | cpu=100000 | Resources times minutes of a job.
    MaxTRESPerAccount | gres/gpu=8 | Most resources of the running jobs of an account.
    MaxTRESPerJob | node=4 | Most resources of a job.
    MaxTRESPerNode | cpu=32 | Most resources of a job on a node.
    MaxTRESPerUser | gres/gpu=4 | Most resources of the running jobs of a user.
    MaxTRESRunMinsPerAccount | cpu=100000 | Resources times minutes that an account's running jobs still have to run.
    MaxTRESRunMinsPerUser | cpu=50000 | Resources times minutes that a user's running jobs still have to run.
    MaxWall | 2-00:00:00 | Longest time limit of a job.
    MinPrioThres | 100 | Lowest priority with which a job gets resources.
    MinTRESPerJob | gres/gpu=1 | Fewest resources of a job.
    Preempt | low | QOS whose jobs give way to those of this one.
    PreemptExemptTime | 01:00:00 | Time that a job runs at least before it gives way.
    PreemptMode | requeue | What happens to jobs of this QOS that give way: cluster, cancel, requeue or suspend.
    Priority | 100 | How much it adds to a job's priority.
    QOS | normal,urgent | QOS that may be used.
    UsageFactor | 0.5 | How much a job counts as usage.
    UsageThreshold | 0.1 | Lowest fair share with which jobs start.
""")
"""Limits of QOS, accounts and users (sacctmgr(1)), by their first names; other names are in `limits.py`."""
