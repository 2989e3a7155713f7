"""Slurm clusters as admins make them by hand: packages, an editor's slurm.conf, sacctmgr; each with jobs on it.

Nothing here uses slurmfab: the hosts have Slurm's packages, and all else comes from plain commands on them. Every kind
of cluster has its own ways of writing and placing Slurm's files, so that together they show what a takeover can meet.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab_cluster import DeployedLab
from stock import Stock
from suites import LIKE

from slurmfab.cluster.slurm import versions
from slurmfab.cluster.slurm.platform import DEBIAN, EL_OPENHPC
from slurmfab.lab import kill_host
from slurmfab.lab.ubuntu_like import LIKES

ETC = "/etc/slurm"
COMPLETED = "/var/log/slurm/jobcomp.log"
"""Where clusters without accounting note jobs that have ended."""

PEOPLE = {"ada": 2001, "bob": 2002}
"""Users that the admin has made on all hosts, with their UIDs."""

PASSWORD = "Eng4geS+Nothing"
"""Of slurm in the accounting database: it must leave the hosts in nothing that slurmfab writes or prints."""

CONFIGURATION = "scontrol show config | grep -vE '^(Configuration data|BOOT_TIME|NEXT_JOB_ID|HASH_VAL)'"
"""What slurmctld makes of slurm.conf, but for what changes by itself or with each spelling of the file."""
PARTITIONS = "scontrol -o show partition"
NODES = (
    "scontrol -o show node | grep -oE '(^| )(NodeName|NodeHostName|CPUTot|Sockets|CoresPerSocket|ThreadsPerCore"
    "|RealMemory|AvailableFeatures|Gres|Weight|Partitions)=[^ ]*'"
)
JOBS = (
    "shown='JobID:12,State:12,UserName:12,Partition:16,QOS:16,Account:16'; { squeue --all -h -t PENDING -O $shown;"
    " squeue --all -h -t RUNNING -O $shown,StartTime:24; } | sort -n"
)
"""Without the begin of pending jobs: once the backfill scheduler has reached one, that is an estimate."""
HISTORY = (
    "sacct -a -X -n -P -S 2020-01-01 -E now -s CD,F,CA,TO,NF -o JobID,State,User,Account,QOS,Partition,Start,End | sort"
)
ASSOCIATIONS = (
    "sacctmgr -n -P show qos format=Name,Priority,GrpTRES,MaxTRESPU,MaxJobsPU,MaxWall,Flags,UsageFactor | sort;"
    " sacctmgr -n -P show assoc format=Cluster,Account,User,Share,QOS,DefaultQOS,MaxJobs,GrpTRES | sort;"
    " sacctmgr -n -P show user format=User,DefaultAccount,AdminLevel | sort"
)
RESTLESS = "squeue --all -h -t CG -o %i; squeue --all -h -t PD -o %r | grep -xE 'None|Priority|Resources'"
"""Tells a line for each job that is about to start or to end."""
BEGINLESS = f"{HISTORY} | grep -E '[|]Unknown([|][|]|([|][^|]*)?$)'"
"""Tells those of which slurmdbd knows the end before the begin: without a partition. A QOS may be unknown for good."""
PROCESSES = "ps -C sleep -o pid=,user=,args= | grep 'sleep 3600' | sort"
"""The programs of jobs, which sleep for an hour."""
DAEMONS = (
    "for unit in munge slurmctld slurmd slurmdbd; do echo $unit=$(systemctl show -P MainPID $unit); done"
    " | grep -v =0 | xargs"
)
"""Changes when a daemon has been started again."""

BASICS = """
echo '{key}' | base64 -d >/etc/munge/munge.key
chown munge:munge /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
sed -i "/ $(hostname)$/d" /etc/hosts
printf '{hosts}' >>/etc/hosts
{people}
"""
"""Shell commands for a new host: the munge key, the names of all hosts, the people."""


@dataclass(frozen=True)
class Jobs:
    """A cluster's jobs at one moment, and what they and the daemons are.

    Args:
        jobs: squeue's lines of running and pending jobs: ID, state, user, partition, QOS, account; begin if it runs.
        processes: the programs of running jobs, by host.
        history: sacct's lines of ended jobs, or the lines of the job completion log; empty without either.
        associations: sacctmgr's lines; empty without accounting.
        next_id: the ID of the next job.
    """

    jobs: str
    processes: Mapping[str, str]
    history: str
    associations: str
    next_id: int


@dataclass(frozen=True)
class HandMade:
    """A cluster that an admin made by hand, with a job that has ended, jobs that run and jobs that wait.

    Args:
        kind: name of its kind, of `KINDS`.
        lab: its hosts; the controller is ctl.
        cluster: its ClusterName.
        nodes: hosts with slurmd.
        ended: ID of a job that has ended.
        running: IDs of jobs that run.
        pending: IDs of jobs that wait, each with squeue's reason.
        accounting: host of slurmdbd; empty without accounting.
        completed: path of the job completion log; empty without one.
    """

    kind: str
    lab: DeployedLab
    cluster: str
    nodes: tuple[str, ...]
    ended: str
    running: tuple[str, ...]
    pending: Mapping[str, str] = field(default_factory=dict)
    accounting: str = ""
    completed: str = COMPLETED

    def on(self, host: str, script: str) -> str:
        return self.lab.on(host, script)

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the cluster, controller first."""
        return tuple(dict.fromkeys(("ctl", *self.nodes, *filter(None, (self.accounting,)))))

    @property
    def history_command(self) -> str:
        """Shell command that prints a line for each job that has ended; nothing on a cluster without any record."""
        return HISTORY if self.accounting else f"{{ cat {self.completed} 2>/dev/null || :; }}"

    def jobs(self) -> Jobs:
        """What a takeover must keep, once no job is about to start or to end."""
        restless = f"{RESTLESS}; {BEGINLESS}" if self.accounting else RESTLESS
        self.lab.until("ctl", f"{{ {restless}; }} | wc -l", "0")
        return Jobs(
            jobs=self.on("ctl", JOBS),
            processes={host: self.on(host, f"{PROCESSES} || :") for host in self.nodes},
            history=self.on("ctl", self.history_command),
            associations=self.on("ctl", ASSOCIATIONS) if self.accounting else "",
            next_id=int(self.on("ctl", "scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p'")),
        )

    def daemons(self) -> dict[str, str]:
        """Process IDs of all daemons, by host; equal ones mean that none has been started again."""
        return {host: self.on(host, DAEMONS) for host in self.hosts}

    def settings(self) -> dict[str, str]:
        """slurm.conf as slurmctld understands it, by what it is about."""
        return {
            what: self.on("ctl", command)
            for what, command in (("configuration", CONFIGURATION), ("partitions", PARTITIONS), ("nodes", NODES))
        }


Maker = Callable[[DeployedLab, str], HandMade]


@dataclass(frozen=True)
class Kind:
    """A kind of hand-made cluster.

    Args:
        make: makes it on hosts that have Slurm's packages; takes the lab and its suite.
        nodes: how many hosts the lab has besides ctl.
        gpus: stand-in GPUs, as in LabSpec.
        packages: further packages, by host.
        shared: directories that all hosts share.
        slurm_packages: as in LabSpec; empty for those that the tests are run with.
    """

    make: Maker
    nodes: int = 2
    gpus: tuple[str, ...] = ()
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    slurm_packages: str = ""


@contextmanager
def made_by_hand(stock: Stock, kind: str, suite: str, *, newer_slurm: bool = False) -> Iterator[HandMade]:
    """A lab with a cluster of this kind, which slurmfab has never seen; it is removed at the end of the context.

    Args:
        stock: where labs come from.
        kind: a name in `KINDS`.
        suite: Debian suite.
        newer_slurm: as in LabSpec.
    """
    wanted = KINDS[kind]
    more = {"nodes": wanted.nodes, "gpus": wanted.gpus, "shared": wanted.shared, "newer_slurm": newer_slurm}
    more |= {"slurm_packages": wanted.slurm_packages} if wanted.slurm_packages else {}
    with stock.installed(suite, wanted.packages, **more) as lab:
        yield wanted.make(lab, suite)


def everywhere(lab: DeployedLab, script: str, *hosts: str) -> None:
    """Run a shell script on several hosts at once; on all of the lab if none is named."""
    names = hosts or tuple(host.name for host in lab.lab.hosts)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: lab.on(name, f"set -e\n{script}"), names))


def prepare(lab: DeployedLab) -> None:
    """Give all hosts one munge key, the names of all hosts, and the people; starts munged."""
    key = lab.on("ctl", "dd if=/dev/urandom bs=1 count=1024 2>/dev/null | base64 -w0")
    hosts = "".join(f"{host.address} {host.name}\\n" for host in lab.lab.hosts)
    people = "\n".join(f"useradd -m -s /bin/bash -u {uid} {name}" for name, uid in PEOPLE.items())
    everywhere(lab, BASICS.format(key=key, hosts=hosts, people=people) + "systemctl restart munge")


WITHOUT_LIMITS = {
    "proctrack/cgroup": "proctrack/linuxproc",
    "task/affinity,task/cgroup": "task/affinity",
    "task/cgroup,task/affinity": "task/affinity",
    "TaskPlugin=task/cgroup": "TaskPlugin=task/none",
    "jobacct_gather/cgroup": "jobacct_gather/linux",
    "ConstrainCores=": "CgroupPlugin=disabled\nConstrainCores=",
}
"""What stands in files of hosts without controllers of control groups: their systemd knows version 2 alone, and this
machine has them in version 1."""

HAS_LIMITS = not (LIKE and LIKES[LIKE].suite == "sid") or Path("/sys/fs/cgroup/cgroup.controllers").exists()


def file(path: str, text: str, mode: str = "644") -> str:
    """Shell commands that write a text file, as an editor would."""
    for limited, instead in () if HAS_LIMITS else WITHOUT_LIMITS.items():
        text = text.replace(limited, instead)
    return f"mkdir -p {path.rpartition('/')[0]}\ncat >{path} <<'END'\n{text.strip()}\nEND\nchmod {mode} {path}\n"


NO_CGROUPS = "CgroupPlugin=disabled"
CGROUPS = "" if HAS_LIMITS else file(f"{ETC}/cgroup.conf", NO_CGROUPS)
"""Shell commands for a cluster that has no cgroup.conf where there are limits."""


def submit(lab: DeployedLab, user: str, *options: str, wrap: str = "sleep 3600") -> str:
    """Submit a batch job of a user on the controller, and return its ID."""
    words = shlex.join(["sbatch", "--parsable", "-o", "/dev/null", "--chdir=/tmp", *options, f"--wrap={wrap}"])
    return lab.on("ctl", f"cd /tmp && runuser -u {user} -- {words}")


def wait_for(lab: DeployedLab, job: str, state: str) -> None:
    """Wait until a job has a state, with its reason if it waits, in squeue's words."""
    lab.until("ctl", f"squeue -h -t all -j {job} -o '%T %r'", state)


def at_work(
    lab: DeployedLab, kind: str, cluster: str, nodes: tuple[str, ...], *options: str, completed: str = COMPLETED
) -> HandMade:
    """Wait for the nodes, and give the cluster an ended job, a running one, one held and one that depends on another.

    Args:
        lab: its hosts.
        kind: name of its kind.
        cluster: its ClusterName.
        nodes: hosts with slurmd.
        options: of sbatch, for all jobs.
        completed: path of the job completion log.
    """
    lab.until("ctl", "sinfo -h -N -o '%N %t' | sort -u | grep -vc idle", "0")
    ended = submit(lab, "ada", *options, wrap="hostname")
    running = submit(lab, "ada", "-n1", "-t", "2:00:00", *options)
    held = submit(lab, "bob", "-n1", "--hold", *options)
    after = submit(lab, "bob", "-n1", f"--dependency=afterok:{running}", *options)
    wait_for(lab, ended, "COMPLETED None")
    wait_for(lab, running, "RUNNING None")
    lab.until("ctl", f"squeue -h -j {held} -o %r", "JobHeldUser")
    pending = {held: "JobHeldUser", after: "Dependency"}
    return HandMade(kind, lab, cluster, nodes, ended, (running,), pending, completed=completed)


def named(pid_files: Mapping[str, str]) -> dict[str, str]:
    """Paths of pid files as Debian's units have them, by placeholders of the texts below."""
    old = "/run/slurmd.pid" in pid_files.values()
    return {f"{daemon}_pid": f"/run/{daemon}.pid" if old else path for daemon, path in pid_files.items()}


PLAIN = """
# slurm.conf file generated by configurator easy.html.
# Put this file on all nodes of your cluster.
# See the slurm.conf man page for more information.
#
SlurmctldHost=ctl
#
#MailProg=/bin/mail
MpiDefault=none
#MpiParams=ports=#-#
ProctrackType=proctrack/cgroup
ReturnToService=1
SlurmctldPidFile=/var/run/slurmctld.pid
#SlurmctldPort=6817
SlurmdPidFile=/var/run/slurmd.pid
#SlurmdPort=6818
SlurmdSpoolDir=/var/spool/slurmd
SlurmUser=slurm
#SlurmdUser=root
StateSaveLocation=/var/spool/slurmctld
SwitchType=switch/none
TaskPlugin=task/affinity,task/cgroup
#
#
# TIMERS
#KillWait=30
#MinJobAge=300
SlurmctldTimeout=120
SlurmdTimeout=300
# bob's jobs write for long when they are told to end
KillWait=60
#
#
# SCHEDULING
SchedulerType=sched/backfill
SelectType={select}
SelectTypeParameters=CR_Core
#
#
# LOGGING AND ACCOUNTING
#AccountingStorageType=accounting_storage/none
ClusterName=cluster
#JobAcctGatherFrequency=30
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
SlurmctldDebug=info
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdDebug=info
SlurmdLogFile=/var/log/slurmd.log
#
#
# COMPUTE NODES
NodeName=n[1-2] CPUs=2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
"""As the configurator in Slurm's documentation writes it."""


def plain(lab: DeployedLab, suite: str) -> HandMade:
    """Two nodes, no accounting, the configurator's file: memory is not counted, state and logs lie where it says."""
    prepare(lab)
    select = (
        "select/cons_res"
        if versions.distribution_version(suite) < versions.SlurmVersion(23, 11)
        else "select/cons_tres"
    )
    conf = file(f"{ETC}/slurm.conf", PLAIN.format(select=select))
    cgroup = file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    places = "mkdir /var/spool/slurmctld; touch /var/log/slurmctld.log; "
    places += "chown slurm: /var/spool/slurmctld /var/log/slurmctld.log\n"
    lab.on("ctl", f"set -e\n{places}{conf}{cgroup}systemctl restart slurmctld")
    everywhere(lab, f"{conf}{cgroup}systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "plain", "cluster", ("n1", "n2"))


def one_place(lab: DeployedLab, suite: str) -> HandMade:  # noqa: ARG001 - the same on all
    """The same with one directory for slurmctld and slurmd, and a controller that computes; n3 is no node."""
    prepare(lab)
    text = PLAIN.format(select="select/cons_tres").replace("NodeName=n[1-2]", "NodeName=n[1-2],ctl")
    text = text.replace("ClusterName=cluster", "ClusterName=oneplace")
    for place in ("/var/spool/slurmd", "/var/spool/slurmctld"):
        text = text.replace(f"={place}\n", "=/var/spool/slurm\n")
    files = file(f"{ETC}/slurm.conf", text) + file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    places = "mkdir /var/spool/slurm; touch /var/log/slurmctld.log; "
    places += "chown slurm: /var/spool/slurm /var/log/slurmctld.log\n"
    lab.on("ctl", f"set -e\n{places}{files}systemctl restart slurmctld slurmd")
    everywhere(lab, f"{files}systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "one-place", "oneplace", ("n1", "n2", "ctl"))


ACCOUNTS = """
ClusterName=hydra
SlurmctldHost=ctl
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldDebug=verbose
ReturnToService=2
MailProg=/bin/true

# --- jobs and their processes ---
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
PrologFlags=Contain
MaxJobCount=20000
MaxArraySize=5001

# --- accounting ---
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=n3
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=30

# --- scheduling ---
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerParameters=bf_window=4320,bf_continue,default_queue_depth=200
PriorityType=priority/multifactor
# a week, as the users' meeting decided in 2019
PriorityDecayHalfLife=7-0
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightQOS=5000
KillWait=60
SlurmdTimeout=600

# --- nodes: the A100s came in 2021, the V100s are from the old cluster ---
GresTypes=gpu
NodeName=n1 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:a100:2 Feature=ampere,nvlink Weight=20
NodeName=n2 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:v100:2 Feature=volta Weight=10
PartitionName=batch Nodes=n[1-2] Default=YES MaxTime=7-00:00:00 DefaultTime=01:00:00 AllowQos=normal,long
PartitionName=gpu Nodes=n[1-2] MaxTime=2-0 DefaultTime=04:00:00 AllowAccounts=physics,chemistry QOS=gpu PriorityTier=10
"""

SLURMDBD = """
AuthType=auth/munge
DbdHost=n3
SlurmUser=slurm
DebugLevel=info
LogFile=/var/log/slurm/slurmdbd.log
PidFile={pid}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct_db
# keep three years
PurgeJobAfter=36months
PurgeStepAfter=12months
ArchiveJobs=no
"""

DATABASE = f"""
# MariaDB hangs if it is stopped before it has started.
systemctl start mariadb
printf '[mysqld]\\ninnodb_buffer_pool_size=256M\\ninnodb_lock_wait_timeout=900\\n' >/etc/mysql/conf.d/slurm.cnf
systemctl restart mariadb
mysql -e "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
"""

SACCTMGR = """
until sacctmgr -n show cluster >/dev/null 2>&1; do sleep 0.2; done
sacctmgr -i add cluster hydra
sacctmgr -i modify qos normal set Priority=10
sacctmgr -i add qos long set Priority=5 MaxJobsPU=4 MaxWall=7-0
sacctmgr -i add qos gpu set Priority=50
systemctl restart slurmctld
# slurmctld tells slurmdbd of the GPUs.
until sacctmgr -n -P show tres | grep -q '^gres|gpu|'; do sleep 0.1; done
sacctmgr -i modify qos gpu set MaxTRESPU=gres/gpu=2
sacctmgr -i add account physics Description='Physics department' Organization=science Fairshare=60
sacctmgr -i add account chemistry Description='Chemistry department' Organization=science Fairshare=40
sacctmgr -i add account lasers parent=physics Description='Laser group' Organization=science
sacctmgr -i add user ada Account=lasers DefaultAccount=lasers QOS=normal,long,gpu
sacctmgr -i add user ada Account=physics QOS=normal,long,gpu
sacctmgr -i add user bob Account=chemistry QOS=normal,gpu DefaultQOS=normal
sacctmgr -i modify account chemistry set GrpTRES=cpu=8
sacctmgr -i modify user bob set AdminLevel=Operator
# slurmctld misses what changes in slurmdbd while it registers there for the first time.
systemctl restart slurmctld
"""


def accounts(lab: DeployedLab, suite: str) -> HandMade:
    """slurmdbd on n3, QOS, two partitions, typed GPUs on n1 and n2; jobs of three QOS run and wait for a limit."""
    prepare(lab)
    pids = DEBIAN.pid_files(versions.distribution_version(suite))
    dbd = file(f"{ETC}/slurmdbd.conf", SLURMDBD.format(pid=pids["slurmdbd"], password=PASSWORD), "600")
    owner = "chown slurm: /etc/slurm/slurmdbd.conf\n"
    lab.on("n3", f"set -e\nsystemctl disable --quiet --now slurmd\n{DATABASE}{dbd}{owner}systemctl restart slurmdbd")
    conf = file(f"{ETC}/slurm.conf", ACCOUNTS.format(**named(pids)))
    limits = "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes"
    cgroup = file(f"{ETC}/cgroup.conf", limits)
    lab.on("ctl", f"set -e\n{conf}{cgroup}{SACCTMGR}")
    for host, model in (("n1", "a100"), ("n2", "v100")):
        gres = file(f"{ETC}/gres.conf", f"Name=gpu Type={model} File=/dev/nvidia[0-1]")
        lab.on(host, f"set -e\n{conf}{cgroup}{gres}systemctl restart slurmd")
    made = at_work(lab, "accounts", "hydra", ("n1", "n2"), "--mem=50", "-p", "batch")
    on_gpus = submit(lab, "bob", "-p", "gpu", "--mem=50", "--gres=gpu:v100:2", "-t", "2:00:00")
    too_many = submit(lab, "bob", "-p", "gpu", "--mem=50", "--gres=gpu:a100:1", "-t", "2:00:00")
    wait_for(lab, on_gpus, "RUNNING None")
    lab.until("ctl", f"squeue -h -j {too_many} -o %r", "QOSMaxGRESPerUser")
    lab.until("ctl", f"sacct -X -n -P -j {made.ended} -o State,Partition", "COMPLETED|batch")
    return HandMade(
        "accounts",
        lab,
        "hydra",
        made.nodes,
        made.ended,
        (*made.running, on_gpus),
        {**made.pending, too_many: "QOSMaxGRESPerUser"},
        accounting="n3",
    )


INCLUDES = """
# Site-wide settings. The machine room's files are included at the end.
ClusterName=uni
SlurmctldHost=ctl({ctl})
SlurmUser=slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/var/lib/slurm/slurmctld/jwt_hs256.key
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
MailProg=/bin/true
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
ReturnToService=1

include scheduling.conf
Include /etc/slurm/hardware/nodes.conf
Include hardware/partitions.conf
"""

SCHEDULING = """
# How jobs are scheduled: ask the HPC board before you change anything here.
SelectType = select/cons_tres
selecttypeparameters = CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK
SchedulerParameters=bf_continue,\\
bf_window=2880,\\
bf_resolution=120
PriorityType=priority/multifactor
PriorityFlags=SMALL_RELATIVE_TO_TIME
PriorityFavorSmall=yes
PriorityWeightAge=500   # per day
PriorityWeightJobSize=100
TopologyPlugin=topology/tree
TopologyParam=TopoOptional
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
KillWait=45
"""

HARDWARE = """
NodeName=DEFAULT Sockets=1 CoresPerSocket=2 \\
    ThreadsPerCore=1 RealMemory=2000 State=UNKNOWN
NodeName=n1 NodeAddr={n1} Feature=old,rack1
NodeName=DEFAULT RealMemory=3000 Weight=5
NodeName=n[2,3] NodeAddr={n2},{n3} Feature=new,rack2
NodeSet=fresh Feature=new
NodeSet=first Nodes=n1
"""

GROUPS = """
PartitionName=DEFAULT MaxTime=2-0 State=UP OverSubscribe=NO
PartitionName=short Nodes=first,fresh MaxTime=240 Default=YES
PartitionName=DEFAULT DefaultTime=30 PriorityTier=5
# for the theory group, since 2020
PartitionName=long Nodes=fresh AllowGroups=root,theory
"""

TREE = """
SwitchName=leaf1 Nodes=n1
SwitchName=leaf2 Nodes=n[2-3]
SwitchName=spine Switches=leaf[1-2]
"""


def includes(lab: DeployedLab, suite: str) -> HandMade:
    """slurm.conf in four files with continued lines, defaults and sets of nodes; a topology, tokens; three nodes."""
    prepare(lab)
    pids = DEBIAN.pid_files(versions.distribution_version(suite))
    values = {host.name: host.address for host in lab.lab.hosts}
    conf = file(f"{ETC}/slurm.conf", INCLUDES.format(ctl=values["ctl"], **named(pids)))
    conf += file(f"{ETC}/scheduling.conf", SCHEDULING)
    conf += file(f"{ETC}/hardware/nodes.conf", HARDWARE.format(**values))
    conf += file(f"{ETC}/hardware/partitions.conf", GROUPS)
    conf += file(f"{ETC}/topology.conf", TREE)
    everywhere(lab, f"groupadd -g 2100 theory; usermod -aG theory bob\n{conf}{CGROUPS}")
    key = "/var/lib/slurm/slurmctld/jwt_hs256.key"
    lab.on("ctl", f"set -e; head -c 32 /dev/urandom >{key}; chown slurm: {key}; chmod 600 {key}")
    everywhere(lab, "if [ $(hostname) = ctl ]; then systemctl restart slurmctld; else systemctl restart slurmd; fi")
    return at_work(lab, "includes", "uni", ("n1", "n2", "n3"), "--mem=50")


POWER_SWITCH = "#!/bin/sh\nlogger -t power $0 $*"
CONFIGLESS = """
ClusterName=beowulf
SlurmctldHost=ctl
SlurmctldParameters=enable_configless,idle_on_node_suspend
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurm
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerNode=200
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SuspendProgram=/usr/local/sbin/node-off
ResumeProgram=/usr/local/sbin/node-on
SuspendTime=7200
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
GresTypes=gpu
NodeName=n[1-2] CPUs=2 CoresPerSocket=2 RealMemory=1500 MemSpecLimit=100 Gres=gpu:tesla:1
PartitionName=work Nodes=n1,n2 Default=YES MaxTime=UNLIMITED DefMemPerCPU=100 OverSubscribe=FORCE:1
PartitionName=test Nodes=n1,n2 MaxTime=15 PriorityTier=20 OverSubscribe=FORCE:1
"""


def configless(lab: DeployedLab, suite: str) -> HandMade:
    """Nodes without any file of Slurm's, which may sleep, with a GPU each; jobs that suspend others."""
    prepare(lab)
    conf = file(f"{ETC}/slurm.conf", CONFIGLESS.format(**named(DEBIAN.pid_files(versions.distribution_version(suite)))))
    conf += file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes")
    conf += file(f"{ETC}/gres.conf", "NodeName=n[1-2] Name=gpu Type=tesla File=/dev/nvidia0")
    conf += "".join(file(f"/usr/local/sbin/node-{way}", POWER_SWITCH, "755") for way in ("on", "off"))
    lab.on("ctl", f"set -e\n{conf}systemctl restart slurmctld")
    # Debian 12's unit starts slurmd only if there is a slurm.conf.
    option = file("/etc/default/slurmd", 'SLURMD_OPTIONS="--conf-server ctl:6817"')
    option += file("/etc/systemd/system/slurmd.service.d/configless.conf", "[Unit]\nConditionPathExists=")
    everywhere(lab, f"{option}systemctl daemon-reload; systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "configless", "beowulf", ("n1", "n2"))


OWN_IDS = """
ClusterName=legacy01
SlurmctldHost=ctl
SlurmctldPort=7002
SlurmdPort=7003
SlurmUser=slurm
StateSaveLocation=/srv/slurm/state
SlurmdSpoolDir=/srv/slurm/spool
SlurmctldPidFile=/srv/slurm/run/slurmctld.pid
SlurmdPidFile=/srv/slurm/run/slurmd.pid
SlurmctldLogFile=/srv/slurm/log/ctld.log
SlurmdLogFile=/srv/slurm/log/d.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobCompType=jobcomp/filetxt
JobCompLoc=/srv/slurm/log/jobs.log
FirstJobId=50000
KillWait=45
MaxJobId=900000
NodeName=node[1-2] NodeHostName=n[1-2] NodeAddr={n1},{n2} CPUs=2 RealMemory=1000
PartitionName=all Nodes=node[1-2] Default=YES OverSubscribe=YES:2
"""


def own_ids(lab: DeployedLab, suite: str) -> HandMade:
    """slurm under UID 1001, all its directories below /srv, other ports, nodes with other names than their hosts.

    slurm.conf is a link into a directory that all hosts share.
    """
    del suite
    places = """
usermod -u 1001 slurm; groupmod -g 1001 slurm; usermod -g 1001 slurm
mkdir -p /srv/slurm/state /srv/slurm/spool /srv/slurm/run /srv/slurm/log
chown -R slurm: /srv/slurm /var/lib/slurm /var/log/slurm
"""
    prepare(lab)
    addresses = {host.name: host.address for host in lab.lab.hosts}
    lab.on("ctl", file("/srv/shared/slurm.conf", OWN_IDS.format(**addresses)))
    links = f"ln -s /srv/shared/slurm.conf {ETC}/slurm.conf\n"
    if not HAS_LIMITS:
        lab.on("ctl", file("/srv/shared/cgroup.conf", NO_CGROUPS))
        links += f"ln -s /srv/shared/cgroup.conf {ETC}/cgroup.conf\n"
    everywhere(lab, f"{places}{links}systemctl restart munge", "ctl", "n1", "n2")
    unit = "/etc/systemd/system/slurmctld.service.d"
    site = "[Service]\nNice=-5\nLimitNOFILE=262144\nRestart=on-failure\nPIDFile=/srv/slurm/run/slurmctld.pid"
    lab.on("ctl", f"set -e\n{file(f'{unit}/site.conf', site)}systemctl daemon-reload; systemctl restart slurmctld")
    everywhere(lab, "systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "own-ids", "legacy01", ("n1", "n2"), "--oversubscribe", completed="/srv/slurm/log/jobs.log")


SCRIPTS = """
ClusterName=render
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/usr/local/bin/slurm-mail
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
# mounts the scratch directory of the job
Prolog=/etc/slurm/prolog.sh
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc,Serial
TaskProlog=/usr/local/lib/site/task_prolog
HealthCheckProgram=/usr/local/sbin/node-health
HealthCheckInterval=300
JobSubmitPlugins=lua
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
NodeName=n[1-2] Sockets=1 CoresPerSocket=2 RealMemory=2000
PartitionName=frames Nodes=n[1-2] Default=YES
"""

JOB_SUBMIT = """
-- every job gets a comment, so that the bill can be written
function slurm_job_submit(job_desc, part_list, submit_uid)
   if job_desc.comment == nil then
      job_desc.comment = "uid " .. submit_uid
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
"""


def scripts(lab: DeployedLab, suite: str) -> HandMade:
    """A prolog, epilogs, a task prolog, a health check, a job_submit.lua and a plugin of job steps."""
    prepare(lab)
    conf = file(f"{ETC}/slurm.conf", SCRIPTS.format(**named(DEBIAN.pid_files(versions.distribution_version(suite)))))
    conf += file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    conf += file(f"{ETC}/plugstack.conf.d/pbs.conf", "optional spank_pbs.so")
    note = "#!/bin/sh\n# {0}\necho {0} $SLURM_JOB_ID >>/var/log/site-{0}s\n"
    nodes = file(f"{ETC}/prolog.sh", note.format("prolog"), "755")
    nodes += file(f"{ETC}/epilog.d/10-note", note.format("epilog"), "755")
    nodes += file("/usr/local/lib/site/task_prolog", "#!/bin/sh\necho export SITE=render", "755")
    nodes += file("/usr/local/sbin/node-health", "#!/bin/sh\ndate >/run/node-health", "755")
    mail = file("/usr/local/bin/slurm-mail", "#!/bin/sh\ncat >/dev/null", "755")
    lab.on("ctl", f"set -e\n{conf}{mail}{file(f'{ETC}/job_submit.lua', JOB_SUBMIT)}systemctl restart slurmctld")
    everywhere(lab, f"{conf}{nodes}systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "scripts", "render", ("n1", "n2"))


OPT = """
ClusterName=opt
SlurmctldHost=ctl
SlurmUser=slurm
AuthInfo=socket=/opt/munge/munge.socket.2
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/cgroup
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
KillWait=45
Include /opt/slurm/etc/nodes.conf
PartitionName=all Nodes=ALL Default=YES
"""


def opt(lab: DeployedLab, suite: str) -> HandMade:
    """Slurm's files in /opt/slurm/etc, by -f for daemons and a link for commands; munged's socket in /opt, too."""
    prepare(lab)
    socket = file("/etc/default/munge", 'OPTIONS="--socket=/opt/munge/munge.socket.2"')
    everywhere(lab, f"install -d -o munge -g munge /opt/munge\n{socket}systemctl restart munge")
    place = "/opt/slurm/etc"
    conf = file(f"{place}/slurm.conf", OPT.format(**named(DEBIAN.pid_files(versions.distribution_version(suite)))))
    conf += file(f"{place}/nodes.conf", "NodeName=n[1-2] CPUs=2 CoresPerSocket=2 RealMemory=1500")
    conf += file(f"{place}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    link = f"cp -r {ETC}/. {place}; mv {ETC} {ETC}.package; ln -s {place} {ETC}\n"
    for daemon, hosts in (("slurmctld", ("ctl",)), ("slurmd", ("n1", "n2"))):
        option = file(f"/etc/default/{daemon}", f'{daemon.upper()}_OPTIONS="-f {place}/slurm.conf"')
        everywhere(lab, f"{conf}{link}{option}systemctl restart {daemon}", *hosts)
    return at_work(lab, "opt", "opt", ("n1", "n2"))


BUILT = r"""
place=/opt/slurm
mkdir -p $place/sbin $place/bin $place/lib
for name in slurmctld slurmd slurmstepd; do [ ! -e /usr/sbin/$name ] || cp -L /usr/sbin/$name $place/sbin/; done
for name in sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol sdiag sinfo sprio squeue sreport srun sshare \
  sstat strigger; do cp -L /usr/bin/$name $place/bin/; done
cp -r /usr/lib/*/slurm-wlm $place/lib/slurm
for unit in slurmctld slurmd; do
    [ ! -e $place/sbin/$unit ] || sed "s,/usr/sbin/slurmd ,&-d $place/sbin/slurmstepd ,; s,/usr/sbin/,$place/sbin/," \
        /lib/systemd/system/$unit.service >/etc/systemd/system/$unit.service
done
systemctl stop slurmctld slurmd 2>/dev/null || :
packages=$(dpkg-query -W -f '${Package}\n' 'slurm*' 'libslurm*' 2>/dev/null || :)
DEBIAN_FRONTEND=noninteractive dpkg --purge --force-depends $packages >/dev/null
id slurm >/dev/null 2>&1 || useradd --system --uid 64030 --no-create-home --home-dir /nonexistent slurm
echo $place/lib/slurm >/etc/ld.so.conf.d/slurm.conf
ldconfig
ln -s $place/sbin/* /usr/local/sbin/
ln -s $place/bin/* /usr/local/bin/
mkdir -p /etc/slurm /var/log/slurm /var/spool/slurmd
install -d -o slurm -g slurm /var/lib/slurm/slurmctld
systemctl daemon-reload
"""
"""Stands in for `make install` with the prefix /opt/slurm: the packages' programs and plugins there, and no package."""

SOURCE = """
ClusterName=source
SlurmctldHost=ctl
SlurmUser=slurm
PluginDir=/opt/slurm/lib/slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
KillWait=45
NodeName=n[1-2] CPUs=2 CoresPerSocket=2 RealMemory=1500
PartitionName=all Nodes=ALL Default=YES
"""


def source(lab: DeployedLab, suite: str) -> HandMade:
    """Slurm of no package in /opt/slurm, with units of its own, and links where root finds programs."""
    prepare(lab)
    everywhere(lab, BUILT)
    conf = file(f"{ETC}/slurm.conf", SOURCE.format(**named(DEBIAN.pid_files(versions.distribution_version(suite)))))
    conf += file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    logs = "touch /var/log/slurmctld.log /var/log/slurm/jobcomp.log\n"
    logs += "chown slurm: /var/log/slurm /var/log/slurmctld.log /var/log/slurm/jobcomp.log\n"
    lab.on("ctl", f"set -e\n{logs}{conf}systemctl enable --now slurmctld")
    everywhere(lab, f"{conf}systemctl enable --now slurmd", "n1", "n2")
    return at_work(lab, "source", "source", ("n1", "n2"))


OWN_USER = """
ClusterName=hpc
SlurmctldHost=ctl
SlurmUser=910
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
KillWait=45
NodeName=n[1-2] CPUs=2 CoresPerSocket=2 RealMemory=1500
PartitionName=batch Nodes=ALL Default=YES
"""


def own_user(lab: DeployedLab, suite: str) -> HandMade:
    """slurmctld and slurmdbd as a user of the site's own, named by number, with a group of another name."""
    prepare(lab)
    pids = DEBIAN.pid_files(versions.distribution_version(suite))
    text = SLURMDBD.format(pid="/run/slurmdbd/slurmdbd.pid", password=PASSWORD).replace("DbdHost=n3", "DbdHost=ctl")
    dbd = file(f"{ETC}/slurmdbd.conf", text.replace("SlurmUser=slurm", "SlurmUser=hpc"), "600")
    conf = file(f"{ETC}/slurm.conf", OWN_USER.format(**named(pids)))
    conf += file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    units = "".join(
        file(
            f"/etc/systemd/system/{unit}.service.d/site.conf",
            f"[Service]\nUser=hpc\nGroup=staff\nRuntimeDirectory={unit}\nPIDFile=/run/{unit}/{unit}.pid",
        )
        for unit in ("slurmctld", "slurmdbd")
    )
    owner = f"chown -R hpc:staff /var/lib/slurm /var/log/slurm {ETC}/slurmdbd.conf\n"
    add = "until sacctmgr -n show cluster >/dev/null 2>&1; do sleep 0.2; done\nsacctmgr -i add cluster hpc\n"
    add += "sacctmgr -i add account physics Description=x Organization=y\nsacctmgr -i add user ada Account=physics\n"
    everywhere(lab, f"useradd --system -u 910 -g staff -d /nonexistent hpc\n{conf}", "ctl", "n1", "n2")
    start = "systemctl restart slurmctld"
    daemons = f"{units}systemctl daemon-reload\nsystemctl restart slurmdbd\n{start}\n{add}{start}"
    lab.on("ctl", f"set -e\n{DATABASE}{dbd}{owner}{daemons}")
    everywhere(lab, "systemctl restart slurmd", "n1", "n2")
    made = at_work(lab, "own-user", "hpc", ("n1", "n2"), "--mem=50")
    lab.until("ctl", f"sacct -X -n -P -j {made.ended} -o State,Partition", "COMPLETED|batch")
    return replace(made, accounting="ctl")


GANG = """
# day and night: jobs of the day suspend those of the night
ClusterName=gang
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
ProctrackType=proctrack/cgroup
SlurmctldParameters=enable_configless,idle_on_node_suspend
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SchedulerTimeSlice=60
SuspendProgram=/usr/local/sbin/node-off
ResumeProgram=/usr/local/sbin/node-on
SuspendTime=7200
SuspendTimeout=120
ResumeTimeout=600
SuspendExcParts=night
NodeName=n[1-2] CPUs=2 CoresPerSocket=2 RealMemory=1500
PartitionName=night Nodes=n[1-2] Default=YES OverSubscribe=FORCE:1 PriorityTier=1
PartitionName=day Nodes=n[1-2] OverSubscribe=FORCE:1 PriorityTier=10
"""


def gang(lab: DeployedLab, suite: str) -> HandMade:
    """Jobs that suspend others, nodes that may sleep, and slurmctld that serves files although all nodes have some."""
    prepare(lab)
    pids = named(DEBIAN.pid_files(versions.distribution_version(suite)))
    conf = file(f"{ETC}/slurm.conf", GANG.format(**pids)) + file(f"{ETC}/cgroup.conf", "ConstrainCores=yes")
    conf += "".join(file(f"/usr/local/sbin/node-{way}", POWER_SWITCH, "755") for way in ("on", "off"))
    lab.on("ctl", f"set -e\n{conf}systemctl restart slurmctld")
    everywhere(lab, f"{conf}systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "gang", "gang", ("n1", "n2"))


TREES = """
# nodes of the biologists are theirs when they need them
ClusterName=trees
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
TopologyPlugin=topology/tree
Licenses=matlab:10,ansys:4
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
EnforcePartLimits=ANY
GresTypes=gpu,shard
Include nodes.conf
"""

TREE_NODES = """
NodeName=DEFAULT CPUs=2 CoresPerSocket=2 RealMemory=1500
NodeName=n1 Gres=gpu:tesla:2,shard:8 Feature=fat
NodeName=n2 Feature=ib
NodeSet=fast Feature=ib
NodeSet=theirs Nodes=n1
PartitionName=DEFAULT MaxTime=2-0
PartitionName=main Nodes=theirs,fast Default=YES PriorityTier=1
PartitionName=bio Nodes=theirs PriorityTier=5 PreemptMode=OFF
"""


def trees(lab: DeployedLab, suite: str) -> HandMade:
    """Switches, licences, a partition that requeues others' jobs, shards without a type, node sets in an Include."""
    prepare(lab)
    conf = file(f"{ETC}/slurm.conf", TREES.format(**named(DEBIAN.pid_files(versions.distribution_version(suite)))))
    conf += file(f"{ETC}/nodes.conf", TREE_NODES)
    conf += file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes")
    conf += file(
        f"{ETC}/topology.conf", "SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2\nSwitchName=top Switches=s[1-2]"
    )
    conf += file(
        f"{ETC}/gres.conf", "NodeName=n1 Name=gpu Type=tesla File=/dev/nvidia[0-1]\nNodeName=n1 Name=shard Count=8"
    )
    lab.on("ctl", f"set -e\n{conf}systemctl restart slurmctld")
    everywhere(lab, f"{conf}systemctl restart slurmd", "n1", "n2")
    return at_work(lab, "trees", "trees", ("n1", "n2"))


ALONE = """
# the machine under the desk
ClusterName=alone
SlurmctldHost=localhost
SlurmUser=root
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
MailProg=/bin/true
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
ProctrackType=proctrack/linuxproc
GresTypes=gpu,mps
NodeName=localhost CPUs=2 CoresPerSocket=2 RealMemory=1500 Gres=gpu:tesla:2,mps:200
PartitionName=desk Nodes=localhost Default=YES
"""


def alone(lab: DeployedLab, suite: str) -> HandMade:
    """One host that calls itself localhost, as guides have it, and all of it root's; MPS of GPUs that have a type."""
    prepare(lab)
    conf = file(f"{ETC}/slurm.conf", ALONE.format(**named(DEBIAN.pid_files(versions.distribution_version(suite)))))
    conf += file(f"{ETC}/cgroup.conf", "CgroupAutomount=yes\nConstrainCores=no")
    conf += file(f"{ETC}/gres.conf", "Name=gpu Type=tesla File=/dev/nvidia[0-1]\nName=mps Count=200")
    unit = file("/etc/systemd/system/slurmctld.service.d/site.conf", "[Service]\nUser=root\nGroup=root")
    lab.on("ctl", f"set -e\n{conf}{unit}systemctl daemon-reload; systemctl restart slurmctld slurmd")
    return at_work(lab, "alone", "alone", ("ctl",))


OPENHPC = """
# Only the head node has this file. SlurmUser is the one that slurm-ohpc makes.
ClusterName=thunder
SlurmctldHost=ctl
SlurmctldParameters=enable_configless
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/var/run/slurmctld.pid
SlurmdPidFile=/var/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ReturnToService=1
KillWait=45
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity
PropagateResourceLimitsExcept=MEMLOCK
Epilog=/etc/slurm/slurm.epilog.clean
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm_jobcomp.log
NodeName=n[1-2] Sockets=1 CoresPerSocket=2 ThreadsPerCore=1
PartitionName=normal Nodes=n[1-2] Default=YES MaxTime=24:00:00 OverSubscribe=EXCLUSIVE
"""


def openhpc(lab: DeployedLab, suite: str) -> HandMade:  # noqa: ARG001 - there is one
    """The stand-in for Enterprise Linux with OpenHPC's packages: nodes fetch Slurm's files, and have whole jobs."""
    prepare(lab)
    completed = "/var/log/slurm_jobcomp.log"
    epilog = file(f"{ETC}/slurm.epilog.clean", "#!/bin/sh\nexit 0", "755")
    conf = file(f"{ETC}/slurm.conf", OPENHPC) + file(f"{ETC}/cgroup.conf", "ConstrainCores=yes")
    places = f"mkdir /var/spool/slurmctld; touch /var/log/slurmctld.log {completed}\n"
    places += f"chown slurm: /var/spool/slurmctld /var/log/slurmctld.log {completed}\n"
    lab.on("ctl", f"set -e\n{places}{epilog}{conf}systemctl enable --quiet --now munge slurmctld")
    option = file("/etc/sysconfig/slurmd", 'SLURMD_OPTIONS="--conf-server ctl"')
    everywhere(lab, f"{epilog}{option}systemctl enable --quiet --now munge slurmd", "n1", "n2")
    return at_work(lab, "openhpc", "thunder", ("n1", "n2"), completed=completed)


WORN = """
# jobs are recorded, and nobody is held to anything
ClusterName=worn
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile={slurmctld_pid}
SlurmdPidFile={slurmd_pid}
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
ReturnToService=1
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
JobAcctGatherType=jobacct_gather/linux
# from the times of the old billing
JobCompPass={password}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SlurmdTimeout=30
GresTypes=gpu,mps
NodeName=n1 CPUs=2 CoresPerSocket=2 RealMemory=1500 Gres=gpu:tesla:2,mps:200
NodeName=n2 CPUs=2 CoresPerSocket=2 RealMemory=1500
NodeName=n3 CPUs=2 CoresPerSocket=2 RealMemory=1500 Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES
"""

WORN_GRES = """
NodeName=n1 Name=gpu Type=tesla File=/dev/nvidia[0-1]
NodeName=n1 Name=mps Count=200
NodeName=n3 Name=gpu File=/dev/nvidia[0-1]
"""


def worn(lab: DeployedLab, suite: str) -> HandMade:
    """Accounting that holds nobody, a password of old times, MPS without a type, GPUs that nobody uses, a dead node."""
    prepare(lab)
    pids = DEBIAN.pid_files(versions.distribution_version(suite))
    text = SLURMDBD.format(pid=pids["slurmdbd"], password=PASSWORD).replace("DbdHost=n3", "DbdHost=ctl")
    dbd = f"{file(f'{ETC}/slurmdbd.conf', text, '600')}chown slurm: {ETC}/slurmdbd.conf\n"
    conf = file(f"{ETC}/slurm.conf", WORN.format(**named(pids), password=PASSWORD))
    conf += file(f"{ETC}/cgroup.conf", "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes")
    conf += file(f"{ETC}/gres.conf", WORN_GRES)
    add = "until sacctmgr -n show cluster >/dev/null 2>&1; do sleep 0.2; done\nsacctmgr -i add cluster worn\n"
    add += "sacctmgr -i add account physics Description=x Organization=y\nsacctmgr -i add user ada Account=physics\n"
    start = "systemctl restart slurmctld"
    lab.on("ctl", f"set -e\n{DATABASE}{dbd}{conf}systemctl restart slurmdbd\n{start}\n{add}{start}")
    everywhere(lab, f"{conf}systemctl restart slurmd", "n1", "n2", "n3")
    made = at_work(lab, "worn", "worn", ("n1", "n2"), "-w", "n1", "--mem=50")
    kill_host(lab.lab, "n3")
    down = f"sed -i '/^NodeName=n3/s/$/ State=DOWN/' {ETC}/slurm.conf"
    everywhere(lab, down, "ctl", "n1", "n2")
    lab.on("ctl", "scontrol reconfigure")
    lab.until("ctl", "sinfo -h -n n3 -o %t | tr -d '*'", "down")
    return replace(made, accounting="ctl")


KINDS: Mapping[str, Kind] = {
    "plain": Kind(plain),
    "one-place": Kind(one_place, nodes=3, packages={"ctl": DEBIAN.packages("compute")}),
    "accounts": Kind(
        accounts,
        nodes=3,
        gpus=("n1:2:A100-SXM4-40GB", "n2:2:Tesla_V100-SXM2-16GB"),
        packages={"n3": (*DEBIAN.packages("database"), *DEBIAN.database.packages)},
    ),
    "includes": Kind(includes, nodes=3, packages=dict.fromkeys(("ctl", "n1", "n2", "n3"), ("slurm-wlm-jwt-plugin",))),
    "configless": Kind(configless, gpus=("n1:1:Tesla_T4", "n2:1:Tesla_T4")),
    "own-ids": Kind(own_ids, shared=("/srv/shared",)),
    "own-user": Kind(own_user, packages={"ctl": (*DEBIAN.packages("database"), *DEBIAN.database.packages)}),
    "opt": Kind(opt),
    "source": Kind(source),
    "scripts": Kind(scripts),
    "gang": Kind(gang),
    "trees": Kind(trees, gpus=("n1:2:Tesla_T4",)),
    "alone": Kind(alone, nodes=1, gpus=("ctl:2:Tesla_T4",), packages={"ctl": DEBIAN.packages("compute")}),
    "openhpc": Kind(openhpc, packages={"ctl": EL_OPENHPC.packages("database")}, slurm_packages=EL_OPENHPC.word),
}
"""All kinds of hand-made clusters, by name."""
