"""The clusters whose files are kept in this directory, one directory per Slurm version and case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurmfab.base.paths import MAIL_PROGRAM
from slurmfab.cluster.facts import Cgroup, Gpu, Hardware
from slurmfab.cluster.inventory.scratch import PrivateTmp
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.render import NodePrograms, PowerSaving, SlurmConf

VERSIONS = {"22.05": "22.05.8", "23.11": "23.11.4", "24.11": "24.11.5", "25.11": "25.11.2", "26.05": "26.05.5"}
"""The directory's name, and a version as the package has it."""

READ_BY = {"bookworm": "22.05", "trixie": "24.11", "sid": "26.05"}
"""The suites whose real Slurm reads the files of its version (test_accepted.py)."""

SMALL = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=16000)
LARGE = Hardware(CPUs=128, Boards=1, SocketsPerBoard=2, CoresPerSocket=32, ThreadsPerCore=2, RealMemory=515000)
GPUS = tuple(Gpu(f"/dev/nvidia{number}", "a100") for number in range(4))
NEAR = tuple(replace(gpu, cores="0-31" if number < 2 else "32-63") for number, gpu in enumerate(GPUS))
AMD = tuple(Gpu(f"/dev/dri/renderD{number}", "mi250x", cores="0-31") for number in range(128, 132))
INSTANCES = (
    *(
        Gpu("/dev/nvidia0", f"a100_{profile}", with_files=(f"/dev/nvidia-caps/nvidia-cap{cap}",))
        for profile, cap in (("3g.20gb", 31), ("1g.5gb", 85), ("1g.5gb", 94))
    ),
    GPUS[1],
)
EVERYTHING = Cgroup("v2", ("cpuset", "memory", "devices"), swap=True)


def nodes(prefix: str, count: int, hardware: Hardware, gpus: tuple[Gpu, ...] = (), **settings: str) -> tuple[Node, ...]:
    """Compute nodes prefix01, prefix02, … with addresses in a row."""
    names = {number: f"{prefix}{number:02}" for number in range(1, count + 1)}
    network = f"10.0.{len(prefix)}"
    return tuple(Node(name, f"{network}.{number}", name, hardware, gpus, settings) for number, name in names.items())


PLAIN = SlurmConf(
    cluster_name="titanic",
    controllers=(("mn01", "10.0.0.1"),),
    version="",
    nodes=nodes("cn", 4, SMALL),
    partitions=(("batch", "ALL", {"Default": "YES", "MaxTime": "7-00:00:00"}),),
    cgroup=EVERYTHING,
)

CASES: Mapping[str, SlurmConf] = {
    "plain": PLAIN,
    "gpu": replace(
        PLAIN,
        nodes=(
            *nodes("cn", 4, SMALL),
            *nodes("gpu", 2, LARGE, GPUS),
            *nodes("fast", 2, LARGE, GPUS, Gres="gpu:h100:4,nic:2", Weight="10", Features="nvlink,ib"),
        ),
        partitions=(("batch", "ALL", {"Default": "YES"}), ("gpu", "gpu[01-02],fast[01-02]", {"MaxTime": "1-00:00:00"})),
        cgroup=replace(EVERYTHING, version="v1", swap=False),
    ),
    "gpu-kinds": replace(
        PLAIN,
        nodes=(
            *nodes("near", 2, LARGE, NEAR),
            *nodes("parts", 2, LARGE, INSTANCES),
            *nodes("amd", 2, LARGE, AMD),
            *nodes("shards", 2, LARGE, GPUS, Gres="gpu:a100:4,shard:32"),
            *nodes("servers", 2, LARGE, GPUS, Gres="gpu:a100:4,mps:400"),
            *nodes("detected", 2, LARGE, GPUS, AutoDetect="nvml"),
            *nodes("undetected", 2, LARGE, GPUS, AutoDetect="off"),
        ),
    ),
    "software": replace(PLAIN, mail_programs=(MAIL_PROGRAM,), mail_domain="example.org", mpi="pmix"),
    "openmetrics": replace(PLAIN, openmetrics=True),
    "two-controllers": replace(
        PLAIN,
        controllers=(("mn01", "10.0.0.1"), ("mn02", "10.0.0.2")),
        state_directory="/shared/slurm/state",
    ),
    "ipv6": replace(
        PLAIN,
        controllers=(("mn01", "fd83::1"),),
        nodes=tuple(replace(node, address=f"fd83::{node.name[2:]}") for node in nodes("cn", 4, SMALL)),
        slurm_conf={"CommunicationParameters": "NoCtldInAddrAny"},
        accounting_host="fd83::1",
        ipv6=True,
    ),
    "configless": replace(PLAIN, configless=True, slurm_conf={"SlurmctldParameters": "idle_on_node_suspend"}),
    "no-cgroups": replace(PLAIN, cgroup=Cgroup("none")),
    "private-tmp": replace(PLAIN, cgroup=Cgroup("none"), private_tmp=PrivateTmp()),
    "accounting": replace(PLAIN, nodes=nodes("cn", 4, SMALL, GPUS), accounting_host="10.0.0.1"),
    "limits": replace(
        PLAIN,
        nodes=nodes("cn", 4, SMALL, GPUS, Gres="gpu:a100:4,shard:8"),
        accounting_host="db01.example.org",
        enforces_limits=True,
        slurm_conf={"PriorityWeightFairshare": "1000000", "AccountingStorageTRES": "gres/gpu"},
    ),
    "scratch": replace(
        PLAIN,
        nodes=tuple(
            replace(node, scratch=size)
            for size, group in (
                (400, nodes("cn", 4, SMALL)),
                (2048, nodes("gpu", 2, LARGE, GPUS)),
                (2048, nodes("fast", 2, LARGE, GPUS, Gres="gpu:h100:4,nic:2")),
                (0, nodes("diskless", 2, SMALL)),
            )
            for node in group
        ),
        accounting_host="10.0.0.1",
        programs=NodePrograms(has_prolog=True, has_epilog=True, has_task_prolog=True),
    ),
    "health": replace(PLAIN, programs=NodePrograms(has_prolog=True, has_epilog=True, health_interval=300)),
    "power": replace(
        PLAIN,
        power=PowerSaving(
            "/usr/local/lib/slurmfab/suspend", "/usr/local/lib/slurmfab/resume", "cn01,cn04", 120, 600, 20
        ),
    ),
    "preemption": replace(
        PLAIN,
        partitions=(
            ("batch", "ALL", {"Default": "YES", "PriorityTier": "10"}),
            ("spare", "ALL", {"PriorityTier": "1", "PreemptMode": "REQUEUE", "GraceTime": "60"}),
            ("pause", "cn[03-04]", {"PreemptMode": "SUSPEND"}),
        ),
        mail_programs=("/usr/bin/mail",),
    ),
    "overrides": replace(
        PLAIN,
        nodes=(
            *nodes("cn", 2, SMALL, RealMemory="12000", Reason='"spare parts"'),
            Node("odd", "10.9.9.9", "machine7", SMALL, settings={"CPUs": "3"}),
        ),
        partitions=(("day", "cn[01-02]", {"Default": "YES", "OverSubscribe": "NO"}), ("empty", "", {"State": "DOWN"})),
        slurm_conf={
            "slurmdtimeout": "600",
            "MailProg": None,
            "PropagateResourceLimitsExcept": None,
            "MaxJobCount": "50000",
            "RebootProgram": '"/sbin/shutdown -r now"',
            "AccountingStoreFlags": "job_comment",
        },
        cgroup_conf={"ConstrainSwapSpace": "no", "AllowedRAMSpace": "98", "ConstrainDevices": None},
        memory_margin="2G",
    ),
}
