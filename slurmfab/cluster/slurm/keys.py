"""Every key that Slurm 22.05 to 26.05 knows in slurm.conf with its node and partition lines, and in two more files.

These are cgroup.conf and slurmdbd.conf.

A key that the installed Slurm does not know is fatal for the daemons and for every client command. So slurmfab has a
table of all keys and their versions. Source: the parser tables of Slurm's branches 22.05 to 26.05
(src/common/read_config.c, src/interfaces/cgroup.c, src/slurmdbd/read_config.c), which are what the daemons themselves
compare with; the manual pages leave some of them out. tests/golden/test_accepted.py compares with the real programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """A key of one of Slurm's files and the versions that know it, as (year, month)."""

    name: str  # its spelling in the manual; Slurm ignores case
    since: tuple[int, int] = (0, 0)  # the first version that knows it; it is fatal in earlier ones
    until: tuple[int, int] = (99, 0)  # the first version that no longer knows it; it is fatal from then on
    ignored_from: tuple[int, int] = (99, 0)  # the first version that ignores it, with a message in its log
    instead: str = ""


_SLURM_CONF_ALWAYS = """
    AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
    AccountingStorageParameters AccountingStoragePass AccountingStoragePort AccountingStorageTRES
    AccountingStorageType AccountingStoreFlags AccountingStoreJobComment AcctGatherEnergyType
    AcctGatherFilesystemType AcctGatherInfinibandType AcctGatherInterconnectType AcctGatherNodeFreq
    AcctGatherProfileType AllowSpecResourcesUsage AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr
    BackupController BatchStartTimeout BcastExclude BcastParameters BurstBufferParameters BurstBufferType
    CliFilterPlugins ClusterName CommunicationParameters CompleteWait ControlAddr ControlMachine CpuFreqDef
    CpuFreqGovernors CredType CryptoType DebugFlags DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
    DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld
    FairShareDampeningFactor FastSchedule FederationParameters FirstJobId GpuFreqDef GresTypes GroupUpdateForce
    GroupUpdateTime HealthCheckInterval HealthCheckNodeState HealthCheckProgram InactiveLimit InteractiveStepOptions
    JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost JobCompLoc JobCompParams JobCompPass
    JobCompPort JobCompType JobCompUser JobContainerType JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime
    KillOnBadExit KillWait LaunchParameters LaunchType Licenses LogTimeFormat MailDomain MailProg MaxArraySize
    MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode
    MCSParameters MCSPlugin MessageTimeout MinJobAge MpiDefault MpiParams NodeFeaturesPlugins NodeName NodeSet
    OverTimeLimit PartitionName PluginDir PlugStackConfig PreemptExemptTime PreemptMode PreemptType PrEpParameters
    PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge
    PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod
    PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
    PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags
    PrologSlurmctld PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram
    ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog
    ResvOverRun ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters SchedulerParameters
    SchedulerTimeSlice SchedulerType ScronParameters SelectType SelectTypeParameters SlurmctldAddr SlurmctldDebug
    SlurmctldHost SlurmctldLogFile SlurmctldParameters SlurmctldPidFile SlurmctldPort SlurmctldPrimaryOffProg
    SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug SlurmdLogFile SlurmdParameters
    SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile
    SlurmSchedLogLevel SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes
    SuspendExcParts SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog
    TaskPlugin TaskPluginParam TaskProlog TCPTimeout TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth
    UnkillableStepProgram UnkillableStepTimeout UsePAM VSizeFactor WaitTime X11Parameters
"""
_SLURM_CONF_CHANGED = (
    Key("AccountingStorageLoc", until=(25, 11)),
    Key("AccountingStorageUser", ignored_from=(25, 11)),
    Key("CertgenParameters", since=(25, 5)),
    Key("CertgenType", since=(25, 5)),
    Key("CertmgrParameters", since=(24, 11)),
    Key("CertmgrType", since=(24, 11)),
    Key("CliFilterParameters", since=(25, 11)),
    Key("CoreSpecPlugin", ignored_from=(24, 5)),
    Key("DataParserParameters", since=(24, 11)),
    Key("EpilogTimeout", since=(25, 5)),
    Key("ExtSensorsFreq", ignored_from=(23, 11)),
    Key("ExtSensorsType", ignored_from=(23, 11)),
    Key("FrontendName", until=(25, 5)),
    Key("GetEnvTimeout", ignored_from=(25, 5)),
    Key("HashPlugin", since=(24, 5)),
    Key("HealthCheckTimeout", since=(26, 5)),
    Key("HttpParserType", since=(25, 11)),
    Key("JobCompPassScript", since=(25, 11)),
    Key("JobCredentialPrivateKey", ignored_from=(23, 11)),
    Key("JobCredentialPublicCertificate", ignored_from=(23, 11)),
    Key("LicenseParameters", since=(26, 5)),
    Key("MaxBatchRequeue", since=(23, 2)),
    Key("MetricsAuthUsers", since=(26, 5)),
    Key("MetricsParameters", since=(26, 5)),
    Key("MetricsType", since=(25, 11)),
    Key("NamespaceType", since=(25, 11)),
    Key("PowerAction", since=(26, 5)),
    Key("PowerParameters", ignored_from=(24, 5)),
    Key("PowerPlugin", ignored_from=(24, 5)),
    Key("PreemptParameters", since=(23, 2)),
    Key("PrologTimeout", since=(25, 5)),
    Key("SchedulerAuth", until=(24, 5), ignored_from=(22, 5)),
    Key("SlurmctldHttpAuthParameters", since=(26, 5)),
    Key("SlurmctldPlugstack", until=(23, 2)),
    Key("SlurmdHttpAuthParameters", since=(26, 5)),
    Key("SuspendExcStates", since=(23, 2)),
    Key("TLSParameters", since=(24, 5)),
    Key("TLSType", since=(24, 5)),
    Key("UrlParserType", since=(25, 11)),
)
_NODE_ALWAYS = """
    BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CPUSpecList Feature Features Gres MemSpecLimit
    NodeAddr NodeHostname Port Procs RealMemory Reason Sockets SocketsPerBoard State ThreadsPerCore TmpDisk
    TRESWeights Weight
"""
_NODE_CHANGED = (
    Key("GresConf", since=(25, 11)),
    Key("Parameters", since=(25, 11)),
    Key("RestrictedCoresPerGPU", since=(24, 5)),
    Key("SuspendTime", since=(26, 5)),
    Key("Topology", since=(25, 5)),
)
_PARTITION_ALWAYS = """
    AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime DefCPUPerGPU DefMemPerCPU
    DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs ExclusiveUser GraceTime Hidden LLN
    MaxCPUsPerNode MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe OverTimeLimit
    PreemptMode Priority PriorityJobFactor PriorityTier QOS ReqResv ResumeTimeout RootOnly SelectTypeParameters
    Shared State SuspendTime SuspendTimeout TRESBillingWeights
"""
_PARTITION_CHANGED = (
    Key("Exclusive", since=(26, 5)),
    Key("ExclusiveTopo", since=(24, 5)),
    Key("MaxCPUsPerSocket", since=(23, 2)),
    Key("PowerDownOnIdle", since=(23, 2)),
    Key("Topology", since=(25, 5)),
)
_CGROUP_CONF_ALWAYS = """
    AllowedDevicesFile AllowedRAMSpace AllowedSwapSpace CgroupMountpoint CgroupPlugin ConstrainCores
    ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace IgnoreSystemd IgnoreSystemdOnFailure MaxRAMPercent
    MaxSwapPercent MemoryLimitEnforcement MemoryLimitThreshold MemorySwappiness MinRAMSpace
"""
_CGROUP_CONF_CHANGED = (
    Key("AllowedKmemSpace", until=(23, 11)),
    Key("CgroupAutomount", ignored_from=(23, 11)),
    Key("CgroupJobIdPaths", since=(26, 5)),
    Key("CgroupReleaseAgentDir", until=(25, 11)),
    Key("CgroupSlice", since=(25, 11)),
    Key("ConstrainKmemSpace", until=(23, 11)),
    Key("EnableControllers", since=(23, 2)),
    Key("EnableExtraControllers", since=(25, 5)),
    Key("MaxKmemPercent", until=(23, 11)),
    Key("MinKmemSpace", until=(23, 11)),
    Key("RootOwnedCgroups", since=(23, 2), until=(23, 11)),
    Key("SignalChildrenProcesses", since=(23, 11)),
    Key("SystemdTimeout", since=(24, 5)),
)
_SLURMDBD_CONF_ALWAYS = """
    AllowNoDefAcct ArchiveDir ArchiveEvents ArchiveJobs ArchiveResvs ArchiveScript ArchiveSteps ArchiveSuspend
    ArchiveTXN ArchiveUsage AuthAltParameters AuthAltTypes AuthInfo AuthType CommitDelay CommunicationParameters
    DbdAddr DbdBackupHost DbdHost DbdPort DebugFlags DebugLevel DebugLevelSyslog DefaultQOS JobPurge LogFile
    LogTimeFormat MaxQueryTimeRange MessageTimeout Parameters PidFile PluginDir PrivateData PurgeEventAfter
    PurgeEventMonths PurgeJobAfter PurgeJobMonths PurgeResvAfter PurgeStepAfter PurgeStepMonths PurgeSuspendAfter
    PurgeSuspendMonths PurgeTXNAfter PurgeTXNMonths PurgeUsageAfter PurgeUsageMonths SlurmUser StepPurge
    StorageBackupHost StorageHost StorageLoc StorageParameters StoragePass StoragePort StorageType StorageUser
    TCPTimeout TrackSlurmctldDown TrackWCKey
"""
_SLURMDBD_CONF_CHANGED = (
    Key("AllResourcesAbsolute", since=(23, 2)),
    Key("ArchiveJobEnv", since=(26, 5)),
    Key("ArchiveJobScript", since=(26, 5)),
    Key("DisableArchiveCommands", since=(25, 11)),
    Key("DisableCoordDBD", since=(24, 5)),
    Key("HashPlugin", since=(24, 5)),
    Key("MaxPurgeLimit", since=(25, 11)),
    Key("PurgeJobEnvAfter", since=(26, 5)),
    Key("PurgeJobScriptAfter", since=(26, 5)),
    Key("StoragePassScript", since=(25, 11)),
    Key("TLSParameters", since=(24, 5)),
    Key("TLSType", since=(24, 5)),
)


def _table(always: str, changed: Iterable[Key]) -> Mapping[str, Key]:
    """All keys of one file by their lower-case names, as Slurm compares them."""
    keys = (*map(Key, always.split()), *changed)
    return {key.name.lower(): key for key in keys}


SLURM_CONF = _table(_SLURM_CONF_ALWAYS, _SLURM_CONF_CHANGED)
NODE = _table(_NODE_ALWAYS, _NODE_CHANGED)
PARTITION = _table(_PARTITION_ALWAYS, _PARTITION_CHANGED)
CGROUP_CONF = _table(_CGROUP_CONF_ALWAYS, _CGROUP_CONF_CHANGED)
SLURMDBD_CONF = _table(_SLURMDBD_CONF_ALWAYS, _SLURMDBD_CONF_CHANGED)
