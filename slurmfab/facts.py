"""What is known of a host before anything is planned: read once, never changed by a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MARK = "# Made by slurmfab"
"""How each of our configuration files begins."""


@dataclass(frozen=True)
class Account:
    """An entry of the host's user database, as `getent passwd` knows it."""

    uid: int
    gid: int
    home: str
    shell: str


@dataclass(frozen=True)
class Hardware:
    """What Slurm counts of a host, in the words of `slurmd -C` (slurmd(8)); memory in MiB, as the kernel reports it."""

    CPUs: int
    Boards: int
    SocketsPerBoard: int
    CoresPerSocket: int
    ThreadsPerCore: int
    RealMemory: int


@dataclass(frozen=True)
class Gpu:
    """One GPU of a host, or one instance of a GPU in MIG mode.

    Args:
        file: its device file, such as `/dev/nvidia0`.
        type: its model as a Slurm name, such as `a100-sxm4-40gb`; of an instance with its profile behind it, as in
            `a100-sxm4-40gb_1g.5gb`; empty when unknown.
        bus: the PCI address of its slot, such as `0000:3b:00.0`; empty when unknown.
        cores: those of the sockets near it, as gres.conf(5) counts them, such as `0-31`; empty when all are alike.
        with_files: the further device files that an instance needs (gres.conf(5), MultipleFiles).
    """

    file: str
    type: str = ""
    bus: str = ""
    cores: str = ""
    with_files: tuple[str, ...] = ()

    @property
    def slot(self) -> str:
        """What people call it: its slot and its device file, as far as they are known."""
        return f"the GPU in slot {self.bus} ({self.file})" if self.bus else self.file


@dataclass(frozen=True)
class BareGpu:
    """A GPU on a host's PCI bus that nothing can use, since it has no device file.

    Args:
        bus: its PCI address.
        maker: `NVIDIA` or `AMD`.
        driver: what has it, such as `nouveau`; empty for no driver at all.
    """

    bus: str
    maker: str
    driver: str = ""


@dataclass(frozen=True)
class Cgroup:
    """What a host has mounted of control groups.

    Args:
        version: `v1`, `v2`, `hybrid` (v1 controllers beside the v2 tree that Slurm would choose, and refuse) or `none`.
        controllers: those that Slurm can use there and write to, of `cpuset`, `memory`, `devices`.
        swap: whether the kernel accounts swap per group.
        troubles: what keeps Slurm from using them, in the words of `slurmfab.agent.cgroups`; those alone are compared
            that change what Slurm can do.
    """

    version: str
    controllers: tuple[str, ...] = ()
    swap: bool = False
    troubles: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_usable(self) -> bool:
        """Whether Slurm can constrain cores, memory and devices with it."""
        return {"cpuset", "memory", "devices"} <= set(self.controllers)


@dataclass(frozen=True)
class HostFacts:
    """One host as it was when it was asked.

    Args:
        name: what the cluster calls it.
        hostname: what it calls itself (`hostname -s`).
        os_id: `ID` of os-release(5), such as `debian`; `os_like` is its `ID_LIKE`, `codename` its `VERSION_CODENAME`.
        python: the version of the Python that ran the agent.
        clock_offset: its clock minus the deployer's, in seconds, good to half a round trip.
        addresses: its own IP addresses, the one with the default route first.
        accounts: of the users that the cluster cares for, those that exist.
        groups: the same for groups, by GID.
        uids: all taken UIDs with the users' names; `gids` likewise.
        busy_uids: UIDs that own running processes.
        architecture: Debian's name for it, such as `amd64`.
        packages: installed versions of the packages that the cluster cares for.
        hardware: what Slurm counts; `None` when it could not be read.
        gpus: in the order of their device numbers.
        bare_gpus: those on the PCI bus that have no device file.
        gpu_plugins: what AutoDetect can be there, such as `nvml`, by the plugins in Slurm's plugin directory; none
            while Slurm is not installed.
        cgroup: control groups.
        ssh_host_keys: public host keys, base64 by type.
        public_key: the slurm user's SSH public key, empty while there is none.
        munge_key: the munge key in base64, read only from the primary controller, and never shown; empty otherwise.
        slurm_conf: the slurm.conf in force there, empty while there is none; `gres_conf`, `cgroup_conf` and
            `job_container_conf` likewise.
        services: systemd's ActiveState by unit name, for the daemons that exist.
        fetches: whether its slurmd was told to fetch Slurm's files from slurmctld.
        boot: what tells the boot that it runs since from others.
        mail_program: what sends mail from a script, empty where nothing does.
        programs: names of what slurmfab has put into its directory for programs that stay there.
    """

    name: str
    hostname: str
    os_id: str
    codename: str
    os_like: str = ""
    python: str = ""
    clock_offset: float = 0.0
    addresses: tuple[str, ...] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    uids: Mapping[int, str] = field(default_factory=dict)
    gids: Mapping[int, str] = field(default_factory=dict)
    busy_uids: tuple[int, ...] = ()
    architecture: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    hardware: Hardware | None = None
    gpus: tuple[Gpu, ...] = ()
    bare_gpus: tuple[BareGpu, ...] = ()
    gpu_plugins: tuple[str, ...] = ()
    cgroup: Cgroup = Cgroup("none")
    ssh_host_keys: Mapping[str, str] = field(default_factory=dict)
    public_key: str = ""
    munge_key: str = field(default="", repr=False)
    slurm_conf: str = field(default="", repr=False)
    gres_conf: str = field(default="", repr=False)
    cgroup_conf: str = field(default="", repr=False)
    job_container_conf: str = field(default="", repr=False)
    services: Mapping[str, str] = field(default_factory=dict)
    boot: str = ""
    fetches: bool = False
    mail_program: str = ""
    programs: tuple[str, ...] = ()

    @property
    def is_debian(self) -> bool:
        """Whether the host is Debian, Ubuntu or made from one of them."""
        return bool({"debian", "ubuntu"} & {self.os_id, *self.os_like.split()})

    @property
    def slurm_files(self) -> dict[str, str]:
        """Slurm's files in force there, empty texts for those that are not; a job_container.conf only if it is ours."""
        private = {"job_container.conf": self.job_container_conf} if self.has_our_job_container_conf else {}
        texts = {"slurm.conf": self.slurm_conf, "gres.conf": self.gres_conf, "cgroup.conf": self.cgroup_conf}
        return {**texts, **private}

    @property
    def has_our_job_container_conf(self) -> bool:
        """Whether slurmfab has written the host's job_container.conf, which others may have done as well."""
        return self.job_container_conf.startswith(MARK)

    @property
    def slurm_version(self) -> str:
        """The upstream version of the installed Slurm, such as `24.11.5`, empty while none is installed."""
        for package in ("slurmctld", "slurmd", "slurm-client"):
            if package in self.packages:
                return self.packages[package].split("-")[0].split("+")[0].rpartition(":")[2]
        return ""


def from_answer(name: str, answer: Mapping[str, Any], clock_offset: float) -> HostFacts:
    """The facts in an agent's answer.

    Args:
        name: what the cluster calls the host.
        answer: the JSON object that `slurmfab.agent.facts.read` made on the host.
        clock_offset: host's clock minus deployer's, in seconds.
    """
    plain = dict(answer)
    plain.pop("clock", None)
    hardware = plain.pop("hardware", None)
    return HostFacts(
        name=name,
        clock_offset=clock_offset,
        addresses=tuple(plain.pop("addresses", ())),
        accounts={user: Account(**account) for user, account in plain.pop("accounts", {}).items()},
        uids={int(uid): user for uid, user in plain.pop("uids", {}).items()},
        gids={int(gid): group for gid, group in plain.pop("gids", {}).items()},
        busy_uids=tuple(plain.pop("busy_uids", ())),
        programs=tuple(plain.pop("programs", ())),
        hardware=Hardware(**hardware) if hardware else None,
        gpus=tuple(Gpu(**{**gpu, "with_files": tuple(gpu["with_files"])}) for gpu in plain.pop("gpus", ())),
        bare_gpus=tuple(BareGpu(**gpu) for gpu in plain.pop("bare_gpus", ())),
        gpu_plugins=tuple(plain.pop("gpu_plugins", ())),
        cgroup=cgroup_from(plain.pop("cgroup", {"version": "none"})),
        **plain,
    )


def cgroup_from(answer: Mapping[str, Any]) -> Cgroup:
    """The control groups in an agent's answer or in a lock."""
    return Cgroup(
        answer["version"],
        tuple(answer.get("controllers", ())),
        bool(answer.get("swap", False)),
        tuple(answer.get("troubles", ())),
    )


def weakest(cgroups: tuple[Cgroup, ...]) -> Cgroup:
    """What all compute nodes have in common, since Slurm's process tracking is one setting for the whole cluster.

    Each slurmd finds out for itself whether it has v1 or v2 (cgroup.conf(5), CgroupPlugin), so a cluster may have both.
    """
    if not cgroups:
        return Cgroup("none")
    shared = set(cgroups[0].controllers).intersection(*(cgroup.controllers for cgroup in cgroups))
    return Cgroup(
        version=cgroups[0].version if all(cgroup.is_usable for cgroup in cgroups) else "none",
        controllers=tuple(sorted(shared)),
        swap=all(cgroup.swap for cgroup in cgroups),
    )
