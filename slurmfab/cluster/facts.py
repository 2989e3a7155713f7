"""Facts of a host: what the agent reads from it before a run is planned."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from slurmfab.base.answers import (
    ADVICE,
    STRICT,
    Address,
    Base64,
    Certificate,
    DeviceFile,
    Digest,
    HostKeyText,
    HostKeyType,
    HostPath,
    Id,
    Label,
    Phrase,
    Program,
    Seconds,
    SlurmKey,
    Text,
    Word,
    checked,
    pattern,
)
from slurmfab.base.errors import AgentFailed
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB

OURS = {"name", "clock_offset", "reached", "way"}  # the fields of the facts that this machine knows itself
_MAKING = threading.Lock()
LATEST = float(1 << 40)  # a time that no clock shows: seconds since 1970

Cpus = Annotated[int, Field(ge=1, le=65533)]  # as slurm.conf takes them, which has 16 bits for each
PersonId = Annotated[int, Field(ge=0, le=60000)]  # a number of a person, or of the system
Bus = Annotated[str, pattern(r"(?:[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])?", 16)]
Cores = Annotated[str, pattern(r"(?:[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?", 4096)]
CPU_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
MOST_CPUS = 8192  # what Linux supports (NR_CPUS); slurmctld does not survive 65536, as a product either
SiteFileName = Annotated[str, pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)?", 201)]
GpuType = Annotated[str, pattern(r"[A-Za-z0-9_.-]*", 128)]

OwnNumbers = tuple[
    Literal["uid", "gid"],
    Id,
    Id,
    Annotated[str, pattern(r"[^\pC\p{Zl}\p{Zp}]+", 128)],
]
"""Numbers that a host has itself: the kind, the first and the last one, and whose they are.

Two zeros: a name that the host has not, and to which a group or a rule of its own gives the rights of root. A number
to which a rule gives these is that of `a rule of sudo or doas`.
"""


@dataclass(frozen=True)
class Account:
    """An entry of the host's user database, as `getent passwd` knows it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    uid: Id
    gid: Id
    home: HostPath
    shell: HostPath


@dataclass(frozen=True)
class Hardware:
    """A host's hardware, by the keys that `slurmd -C` prints (slurmd(8)); RealMemory in MiB, without any margin."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    CPUs: Cpus
    Boards: Cpus
    SocketsPerBoard: Cpus
    CoresPerSocket: Cpus
    ThreadsPerCore: Cpus
    RealMemory: Annotated[int, Field(ge=1, le=1 << 40)]

    @property
    def is_possible(self) -> bool:
        """Whether a host can have so many; Slurm multiplies them. A lock may have more, from a former slurmfab."""
        threads = self.Boards * self.SocketsPerBoard * self.CoresPerSocket * self.ThreadsPerCore
        return max(self.CPUs, threads) <= MOST_CPUS

    @property
    def processors(self) -> tuple[int, ...]:
        """All but the memory, of which each kernel leaves another amount."""
        return self.CPUs, self.Boards, self.SocketsPerBoard, self.CoresPerSocket, self.ThreadsPerCore


@dataclass(frozen=True)
class Gpu:
    """One GPU of a host, or one instance of a GPU in MIG mode."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    file: DeviceFile  # its device file, such as `/dev/nvidia0`
    # its model as a Slurm name, such as `a100-sxm4-40gb`; a MIG instance has its profile appended, as in
    # `a100-sxm4-40gb_1g.5gb`; empty when unknown
    type: GpuType = ""
    bus: Bus = ""  # the PCI address of its slot, such as `0000:3b:00.0`; empty when unknown
    # cores of the sockets near it, as gres.conf(5) counts them, such as `0-31`; empty when all cores are equally near
    cores: Cores = ""
    # further device files that a MIG instance needs (gres.conf(5), MultipleFiles)
    with_files: Annotated[tuple[DeviceFile, ...], Field(max_length=64)] = ()

    @property
    def slot(self) -> str:
        """A description for messages: PCI slot and device file, as far as known."""
        return f"the GPU in slot {self.bus} ({self.file})" if self.bus else self.file


@dataclass(frozen=True)
class DriverlessGpu:
    """A GPU on a host's PCI bus that programs cannot use, since it has no device file."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    bus: Bus
    maker: Literal["NVIDIA", "AMD"]  # `NVIDIA` or `AMD`
    driver: Word = ""  # the kernel driver that has claimed it, such as `nouveau`; empty for none


@dataclass(frozen=True)
class Cgroup:
    """The control groups that a host has mounted."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    # `v1`, `v2`, `hybrid` (v1 controllers beside a v2 tree; Slurm chooses v2 and then fails) or `none`
    version: Literal["v1", "v2", "hybrid", "none"]
    # those of `cpuset`, `memory` and `devices` that Slurm can use and write to
    controllers: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    swap: bool = False  # whether the kernel accounts swap per group
    # why Slurm cannot use them, in the words of `slurmfab.on_hosts.agent.facts.cgroups`; not part of the comparison
    # of two values
    troubles: Annotated[tuple[Phrase, ...], Field(max_length=64)] = field(default=(), compare=False)

    @property
    def is_usable(self) -> bool:
        """Whether Slurm can constrain cores, memory and devices with it."""
        return self.version in ("v1", "v2") and {"cpuset", "memory", "devices"} <= set(self.controllers)


@dataclass(frozen=True)
class ClusterMark:
    """A sign on a host that it belongs to a cluster, such as a slurm.conf."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    # path of the slurm.conf or of slurmctld's state, or the program of a daemon without a known slurm.conf
    place: Phrase
    cluster: Phrase = ""  # its ClusterName; empty if unknown
    # the values of SlurmctldHost, such as `ctl(10.0.0.1)`, the primary first; empty if unknown
    controllers: Annotated[tuple[Phrase, ...], Field(max_length=64)] = ()


@dataclass(frozen=True)
class SlurmUse:
    """What a host has of clusters. A host that is in the lock is only asked for the sign that its slurm.conf is."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    # signs of clusters, the slurm.conf of Debian's packages first
    marks: Annotated[tuple[ClusterMark, ...], Field(max_length=1024)] = ()
    # names of Slurm's running daemons, such as `slurmd`
    daemons: Annotated[tuple[Word, ...], Field(max_length=16)] = ()
    # numbers of jobs of which a step or a prolog runs there, also of hosts that are in the lock
    jobs: Annotated[tuple[Id, ...], Field(max_length=1 << 20)] = ()
    looked: Annotated[int, Field(ge=0, lt=1 << 62)] = 0  # when these were looked for, by its own clock
    # SHA-256 of the munge key in hexadecimal digits; empty if there is none
    munge_key: Digest = field(default="", repr=False)


@dataclass(frozen=True)
class HostFacts:
    """The facts of one host at the time when they were read."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: str
    hostname: Label  # its own short hostname (`hostname -s`)
    # `ID` of os-release(5), such as `debian`; `os_like` is its `ID_LIKE`, `codename` its `VERSION_CODENAME`
    os_id: Word
    codename: Word  # or, without that, its `PLATFORM_ID`, such as `el9`
    os_like: Phrase = ""
    python: Word = ""  # the version of the Python that ran the agent
    clock_offset: Seconds = 0.0  # its clock minus the deployer's, in seconds, accurate to half a round trip
    # its own IP addresses, the one with the default route first
    addresses: Annotated[tuple[Address, ...], Field(max_length=4096)] = ()
    reached: str = ""  # the IP address at which this machine reached it; empty where a jump host or a program found it
    way: tuple[str, ...] = ()  # IP addresses of this machine and of jump hosts, from which connections to it come
    # by name, the users that were asked about and exist
    accounts: Mapping[Phrase, Account] = field(default_factory=dict)
    # GID by name, of the groups that were asked about and exist
    groups: Mapping[Phrase, Id] = field(default_factory=dict)
    # the members of the groups that were asked for them and exist; asked of the primary controller alone
    members: Mapping[Phrase, Annotated[tuple[Phrase, ...], Field(max_length=1 << 17)]] = field(default_factory=dict)
    # user name by UID, of all users; `gids` likewise for groups
    uids: Mapping[Id, Phrase] = field(default_factory=dict)
    gids: Mapping[Id, Phrase] = field(default_factory=dict)
    # the UIDs and GIDs from 1000 on of the host's own users, groups and ranges of subordinate IDs; read only if the
    # cluster has a directory
    own_numbers: Annotated[tuple[OwnNumbers, ...], Field(max_length=1 << 16)] = ()
    # the first and the last number of each range of subordinate IDs that has some of the numbers of people
    subordinate: Annotated[tuple[tuple[PersonId, PersonId], ...], Field(max_length=256)] = ()
    busy_uids: tuple[Id, ...] = ()  # UIDs that own running processes
    architecture: Word = ""  # Debian's name for it, such as `amd64`; on hosts with rpm the kernel's, as `x86_64`
    # installed version by name, of the packages that were asked about
    packages: Mapping[Word, Word] = field(default_factory=dict)
    hardware: Hardware | None = None  # CPUs and memory as Slurm counts them; `None` when they could not be read
    kernel: Hardware | None = None  # the same as the kernel counts them, where Slurm counts them otherwise
    ecores: Cores = ""  # the numbers of its efficiency cores, such as `16-31`, which Slurm may leave out
    gpus: Annotated[tuple[Gpu, ...], Field(max_length=1024)] = ()  # in the order of their device numbers
    # GPUs on the PCI bus that have no device file
    driverless_gpus: Annotated[tuple[DriverlessGpu, ...], Field(max_length=1024)] = ()
    # values of AutoDetect that work there, such as `nvml`, from the plugins in Slurm's plugin directory; empty while
    # Slurm is not installed
    gpu_plugins: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    cgroup: Cgroup = Cgroup("none")
    ssh_host_keys: Mapping[HostKeyType, HostKeyText] = field(default_factory=dict)  # public host keys, base64 by type
    public_key: SlurmKey = ""  # the slurm user's SSH public key; empty if it has none
    # the munge key in base64, read only from the primary controller, and never shown; empty otherwise
    munge_key: Base64 = field(default="", repr=False)
    jwt_key: Base64 = field(default="", repr=False)  # the key of slurmrestd's tokens, likewise
    has_jwt_key: bool = False
    # the text of the slurm.conf that its daemons use, with all that it includes, empty for none, read only from
    # controllers; `gres_conf` and `cgroup_conf` likewise, and from other hosts where they were made by hand;
    # `job_container_conf` from all
    slurm_conf: Text = field(default="", repr=False)
    gres_conf: Text = field(default="", repr=False)
    cgroup_conf: Text = field(default="", repr=False)
    job_container_conf: Text = field(default="", repr=False)
    # SHA-256 of a slurm.conf that slurmfab did not write, with all that it includes; otherwise empty
    slurm_conf_digest: Digest = ""
    # where `slurm_conf` includes files of its directory, the text of each by name, its own too
    slurm_conf_parts: Mapping[Word, Text] = field(default_factory=dict, repr=False)
    # systemd's ActiveState by unit name, for the daemons that exist
    services: Mapping[Word, Word] = field(default_factory=dict)
    # the daemons of which units or drop-ins of others say whether systemd starts them again
    restarted_by_others: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    boot: Phrase = ""
    fetches: bool = False  # whether its slurmd is configured to fetch Slurm's files from slurmctld (configless)
    # the `--conf-server` that somebody else has given to its slurmd; empty where it has a slurm.conf
    conf_server: Phrase = ""
    mail_program: Program = ""  # program that sends mail; empty if there is none
    # names of the programs that slurmfab has installed on it
    programs: Annotated[tuple[Phrase, ...], Field(max_length=1024)] = ()
    # the capabilities of the cluster file, such as `mounts`, for which slurmfab has written files on it
    owned: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    # the packages that slurmfab has installed on it
    added_packages: Annotated[tuple[Word, ...], Field(max_length=4096)] = ()
    ufw: bool = False  # whether ufw is enabled
    # paths of the programs there that make user namespaces for users, where AppArmor denies these to others, and the
    # texts of AppArmor's profiles that may be about these, by the names of their files
    namespace_programs: Annotated[tuple[HostPath, ...], Field(max_length=64)] = ()
    apparmor_profiles: Annotated[Mapping[Phrase, Text], Field(max_length=64)] = field(default_factory=dict, repr=False)
    enforces_selinux: bool = False  # whether SELinux refuses what its policy does not allow
    # SHA-256 by name of the site's own files in Slurm's directory that it has, of those asked about
    site_files: Mapping[SiteFileName, Digest] = field(default_factory=dict)
    # the names of those that slurmfab has written
    written_site_files: Annotated[tuple[SiteFileName, ...], Field(max_length=1024)] = ()
    # the certificate by which the cluster's own image registry on it is known; empty for none
    registry_ca: Certificate = ""
    slurm_use: SlurmUse = SlurmUse()  # what it has of clusters
    # the ID that slurmctld's state there has for its cluster, from Slurm 24.11 on; 0 for none
    cluster_id: Annotated[int, Field(ge=0, lt=1 << 16)] = 0
    # what another installation of Slurm has left: paths of programs, libraries and units of no package
    remains: Annotated[tuple[HostPath, ...], Field(max_length=1024)] = ()
    # the version that each of Slurm's programs there tells, such as `24.11.5`, by the program's name: `slurmctld`,
    # `slurmd`, `slurmdbd`, `scontrol`
    slurm_versions: Mapping[Word, Word] = field(default_factory=dict)
    # those of which it was asked that are there and not completely installed
    unfinished_packages: Annotated[tuple[Word, ...], Field(max_length=4096)] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What its system is and is made from, as `unsupported` of platforms takes it."""
        return (self.os_id, *self.os_like.split())

    @property
    def slurm_files(self) -> dict[str, str]:
        """Texts of Slurm's files by name, empty for a missing one; job_container.conf only if slurmfab wrote it."""
        private = {"job_container.conf": self.job_container_conf} if self.has_our_job_container_conf else {}
        texts = {"slurm.conf": self.slurm_conf, "gres.conf": self.gres_conf, "cgroup.conf": self.cgroup_conf}
        return {**texts, **private}

    @property
    def has_our_job_container_conf(self) -> bool:
        """Whether slurmfab wrote the host's job_container.conf."""
        return self.job_container_conf.startswith(MADE_BY_SLURMFAB)

    @property
    def slurm_version(self) -> str:
        """The upstream version of Slurm, such as `24.11.5`, by its programs or else its package; empty for none."""
        for program in ("slurmctld", "slurmd", *self.slurm_versions):
            if program in self.slurm_versions:
                return self.slurm_versions[program]
        for package in ("slurmctld", "slurmd", "slurm-client"):
            if package in self.packages:
                return self.packages[package].split("-")[0].split("+")[0].rpartition(":")[2]
        return ""


def from_answer(name: str, answer: Any, clock_offset: float) -> HostFacts:
    """The facts in an agent's answer, with the host's clock minus ours in seconds; AgentFailed by their model."""
    if not isinstance(answer, dict) or OURS & answer.keys():
        raise AgentFailed(name, f"its facts were refused: they are no object with facts. {ADVICE}")
    plain = {**answer, "name": name, "clock_offset": clock_offset}
    plain.pop("clock", None)
    facts = checked(name, adapter(), plain, "facts")
    if not all(map(are_cpus, (facts.ecores, *(gpu.cores for gpu in facts.gpus)))):
        raise AgentFailed(name, f"its facts were refused: cores: a node has at most {MOST_CPUS} CPUs. {ADVICE}")
    if not all(one is None or one.is_possible for one in (facts.hardware, facts.kernel)):
        raise AgentFailed(name, f"its facts were refused: hardware: a node has at most {MOST_CPUS} CPUs. {ADVICE}")
    return facts


def are_cpus(cores: str) -> bool:
    """Whether a list of cores such as `0-31,64` is one of so many as a node may have; nothing is expanded for that.

    It is no part of the model, which the lock has as well: an entry of a former slurmfab would be the end for all.
    """
    matches = [CPU_RANGE.fullmatch(part) for part in cores.split(",") if part]
    pairs = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    is_within = len(pairs) == len(matches) and all(last < MOST_CPUS for _, last in pairs)
    return is_within and sum(max(0, last - first) + 1 for first, last in pairs) <= MOST_CPUS


def clock_of(name: str, answer: Any, otherwise: float) -> float:
    """The host's clock in an answer, in seconds since 1970, or `otherwise`; AgentFailed if it is not a number."""
    clock = answer.get("clock", otherwise) if isinstance(answer, dict) else otherwise
    if type(clock) not in {float, int} or not abs(clock) < LATEST:
        raise AgentFailed(name, f"its facts were refused: clock: it is not a time. {ADVICE}")
    return float(clock)


def adapter() -> TypeAdapter[HostFacts]:
    """The pydantic adapter of facts; it takes some milliseconds to make, so runs make it while hosts answer."""
    with _MAKING:  # the first hosts answer at the same moment, and one adapter is enough
        return _adapter()


@cache
def _adapter() -> TypeAdapter[HostFacts]:
    return TypeAdapter(HostFacts)


def cgroup_from(answer: Mapping[str, Any]) -> Cgroup:
    """The control groups in an agent's answer or in a lock."""
    return Cgroup(
        answer["version"],
        tuple(answer.get("controllers", ())),
        bool(answer.get("swap", False)),
        tuple(answer.get("troubles", ())),
    )


def weakest(cgroups: tuple[Cgroup, ...]) -> Cgroup:
    """The control groups that all compute nodes have (each v1 or v2), since Slurm has one ProctrackType for all."""
    if not cgroups:
        return Cgroup("none")
    shared = set(cgroups[0].controllers).intersection(*(cgroup.controllers for cgroup in cgroups))
    return Cgroup(
        version=cgroups[0].version if all(cgroup.is_usable for cgroup in cgroups) else "none",
        controllers=tuple(sorted(shared)),
        swap=all(cgroup.swap for cgroup in cgroups),
    )
