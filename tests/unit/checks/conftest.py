"""Stand-ins for hosts: shells whose answers are rules, and a cluster of one controller and two compute nodes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ruled_shells import Rule, RuledShell, daemons_of

from slurmfab.base.errors import HostError
from slurmfab.base.hostlist import expand
from slurmfab.cluster.facts import Cgroup, Gpu, Hardware
from slurmfab.cluster.inventory import loading as inventories
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.checks.hosts import Shells
from slurmfab.commands.checks.results import Verdict
from slurmfab.commands.checks.runner import verify
from slurmfab.commands.checks.system import ENCODES, READS
from slurmfab.commands.checks.wanted import files

CLUSTER = """
cluster: tiny
slurm_ssh: both
addresses: {ctl: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [ctl]
nodes:
  - hosts: n[1-2]
"""
HARDWARE = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=8000)
RECORD = (
    "NodeName={name} CoresPerSocket=2 CPUAlloc=0 CPUTot=4 Gres=gpu:2 OS=Linux 6.1 #1 SMP RealMemory=7700 Sockets=1 "
    "Boards=1 State=IDLE ThreadsPerCore=2 Partitions=main"
)
LAYOUT = "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2"
CONFIGURATION = """TaskPlugin = task/cgroup,task/affinity
SelectTypeParameters = CR_CORE_MEMORY
HASH_VAL = Match
ConstrainCores = yes
ConstrainDevices = yes
ConstrainRAMSpace = yes
"""
V2_GROUPS = (
    "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n----\ncpuset cpu io memory pids\n----\n"
    "#subsys_name hierarchy num_cgroups enabled\nmemory 0 1 1\n----\nat:\n----\n"
    "/sys/fs/cgroup/init.scope/memory.swap.max\n----\nthere\n----\n"
)
"""What a host of version 2 shows of its control groups."""

SYSTEM = f"{READS}\n{ENCODES}\n----\n----\n----\n----\n"
"""What an ordinary user can do on a host, no room, package or journal that is wrong, and no SELinux."""

TRIED = re.compile(r"try (\w+) \S+ (\d+) &")
"""A connection that a host is to try: the name and the port of its end."""

NODE = HostLock(
    "", {}, HARDWARE, (Gpu("/dev/nvidia0"), Gpu("/dev/nvidia1")), Cgroup("v2", ("cpuset", "memory", "devices"))
)
LOCK = Lock(
    slurm="24.11.5",
    ids={"slurm.uid": 64030, "slurm.gid": 64030, "munge.uid": 64031, "munge.gid": 64031},
    hosts={"ctl": HostLock("ctl"), "n1": replace(NODE, hostname="n1"), "n2": replace(NODE, hostname="n2")},
)


def hashes_of(texts: Mapping[str, str]) -> str:
    """What sha256sum prints of Slurm's files."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in texts.items())


def sound(name: str) -> dict[str, Rule]:
    """What a host answers to the checks that do not depend on testinfra's modules."""
    return {
        "^true$": "",
        "dpkg --verify": "",
        "^stat -Lc %a /tmp$": "1777\n",
        "^df --block-size": "99999999999 1000 900 /\n",
        "nsswitch": "passwd: files\ngroup: files\nhosts: files dns\n",
        "/etc/environment": "",
        "^cat /proc/self/mounts": V2_GROUPS,
        **daemons_of(),
        "^conf=": SYSTEM,
        "scontrol ping": "Slurmctld(primary) at ctl is UP\n",
        "scontrol show config": CONFIGURATION,
        "scontrol .*show node$": "".join(RECORD.format(name=node) + "\n" for node in ("n1", "n2")),
        "^sinfo --all --noheader .--format=%R": "main|up\n",
        "scontrol .*show node ": lambda command: RECORD.format(name=command.split()[-1]),
        "scontrol --version": "slurm-wlm 24.11.5\n",
        "^date ": lambda _: "1700000000.5\n",
        "sha256sum slurm.conf": hashes_of(files(inventories.parse(CLUSTER, "tiny.yaml"), LOCK)),
        "base64 -w0": "",
        "sha256sum .*munge.key": "cc\n",
        "munge --no-input": "MUNGE:x:\n",
        "unmunge": "STATUS:           Success (0)\n",
        "ssh -o BatchMode": "",
        "try\\(\\)": lambda command: "".join(f"{host} {port} 0 \n" for host, port in TRIED.findall(command)),
        "namei": "",
        "readlink": "",
        "^squeue": "",
        "^SLURM_TIME_FORMAT=%s squeue": "",
        "^SLURM_TIME_FORMAT=%s timeout 30 sacct": "",
        "slurmd -C": f"NodeName={name} {LAYOUT} RealMemory=8000\n",
        "srun .*uname -n": lambda command: told(*expand(re.findall(r"--nodelist=(\S+)", command)[0].strip("'"))),
    }


def told(*nodes: str, ignored: str = "0", cpus: str = "1") -> str:
    """What a job prints of its nodes."""
    return "".join(f"job on {name}: {name} {ignored} {cpus}\n" for name in nodes)


@pytest.fixture
def known(tmp_path: Path) -> Inventory:
    """The cluster, deployed once."""
    return Inventory(inventories.parse(CLUSTER, "tiny.yaml"), LOCK, tmp_path / "tiny.yaml")


@pytest.fixture
def shells() -> dict[str, RuledShell | HostError]:
    """A shell for each host, all sound."""
    return {name: RuledShell(sound(name)) for name in ("ctl", "n1", "n2")}


Look = Callable[..., Verdict]


@pytest.fixture
def look(known: Inventory, shells: dict[str, RuledShell | HostError]) -> Look:
    """Runs the checks on the stand-ins."""

    @contextmanager
    def opener(_: Inventory, hosts: Sequence[str]) -> Iterator[Shells]:
        yield {host: shells[host] for host in hosts}

    def run(*only: str, hosts: Sequence[str] = ("ctl", "n1", "n2"), junit: Path | None = None) -> Verdict:
        return verify(known, hosts, only, opener=opener, junit=junit)

    return run
