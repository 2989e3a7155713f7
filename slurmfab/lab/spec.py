"""The specification of a lab (LabSpec), and a running lab with its hosts (Lab, LabHost)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.lab import ubuntu_like

UBUNTU_SUITES = ("noble", "resolute")
"""Ubuntu suites that lab hosts can run where there is a mirror of Ubuntu: with Slurm 23.11 and 25.11."""

SUITES = ("bookworm", "trixie", "sid", *UBUNTU_SUITES)
"""Suites that lab hosts can run: those of Debian have Slurm 22.05, 24.11 and the newest."""

UNIFIED_SUITES = ("sid", "resolute")  # suites whose systemd (258 and newer) knows only control groups of version 2

SERIES = {"bookworm": "22.05", "noble": "23.11", "trixie": "24.11", "resolute": "25.11", "sid": "26.05"}
"""The Slurm of each suite, also that of the stand-in for SchedMD's packages, which is made from it."""


def suite_with(series: str) -> str:
    """The suite of Debian whose Slurm is of a series; empty for none.

    >>> suite_with("24.11")
    'trixie'
    """
    return next((suite for suite, one in SERIES.items() if one == series and suite not in UBUNTU_SUITES), "")


UNDER_ENTERPRISE_LINUX = "trixie"  # the suite that the stand-in for Enterprise Linux is made of
ENTERPRISE_LINUX = ("el-smd", "el", "el-openhpc")
PACKAGED = "debian"  # the kind of packages that the suite itself has
SLURM_PACKAGES = (PACKAGED, "smd", *ENTERPRISE_LINUX)
"""Kinds of Slurm packages that lab hosts can install: the distribution's, or stand-ins for SchedMD's, and on a stand-in
for Enterprise Linux for SchedMD's, EPEL's and OpenHPC's."""

MOST_NODES = 200  # maximum number of compute nodes; the lab's /24 network has room for them and the controller
STAND_IN = "Lab Stand-in"  # model of stand-in GPUs for which the specification names none
CONTROLLER = "ctl"  # host name of the controller

_FORMS: Mapping[str, tuple[str, str]] = {
    "gpus": (
        r"[^:]+:([1-9]|1[0-6])(:[A-Za-z0-9][A-Za-z0-9_.-]*)?",
        "HOST:COUNT or HOST:COUNT:MODEL, as in n1:2 or n1:2:A100-SXM4-40GB, with a count of 1 to 16",
    ),
    "packages": (
        r"[^:]+:[a-z0-9][a-z0-9+.-]*(,[a-z0-9][a-z0-9+.-]*)*",
        "HOST:PACKAGE,PACKAGE, as in n1:munge,slurmd",
    ),
    "other_packages": (r"n[1-9][0-9]*:[^:]+", "NODE:KIND, as in n2:el-smd"),
    "hostnames": (r"[^:]+:[A-Za-z0-9][A-Za-z0-9-]{0,62}", "HOST:NAME, as in n1:cn01"),
}
"""By field of `LabSpec`: the pattern of its entries, and how they are written, for people."""


@dataclass(frozen=True)
class LabSpec:
    """The specification of a lab; InputError lists all values that are not valid."""

    # one to eight of a-z and 0-9, a letter first; part of the names of the bridge, namespaces and cgroups
    name: str = "lab"
    suite: str = "trixie"  # suite of all hosts: bookworm, trixie or sid of Debian, noble or resolute of Ubuntu
    nodes: int = 2  # number of compute nodes; they are called n1, n2, …; the controller is ctl
    # `HOST:COUNT` or `HOST:COUNT:MODEL`, as in `n1:2` or `n1:2:A100-SXM4-40GB`: device files and a stand-in
    # nvidia-smi that names the model, no real GPU. COUNT is 1 to 16. Underscores in MODEL stand for spaces. A host
    # can be named several times, with different models.
    gpus: tuple[str, ...] = ()
    no_python: tuple[str, ...] = ()  # hosts without python3
    ssh_user: str = "root"  # the user who can log in with the lab's key; a user other than root gets sudo
    # whether sudo asks for a password; it is in the file `sudo_password` of the lab's directory
    sudo_password: bool = False
    down: tuple[str, ...] = ()  # hosts that are in the cluster file but stay switched off
    hanging: tuple[str, ...] = ()  # hosts whose port 22 accepts connections but sends nothing
    apt_lists: bool = True  # whether the hosts have package lists; without them they need `apt-get update`
    # whether /etc/hosts maps the host's own name to 127.0.1.1, as the Debian installer does on machines with DHCP,
    # instead of to its address
    loopback_name: bool = False
    # absolute paths of directories that all hosts share, as a stand-in for a network file system
    shared: tuple[str, ...] = ()
    # hosts that see only cgroup v2; if this machine uses its controllers with cgroup v1, they have no controllers,
    # and Slurm cannot use their cgroups
    unified: tuple[str, ...] = ()
    # hosts that reach only the lab's other hosts and this machine; they have neither package lists nor downloaded
    # packages
    offline: tuple[str, ...] = ()
    # `HOST:PACKAGE,PACKAGE`, as in `n1:munge,slurmd`: Debian packages that a host has from the start, as from a
    # site's image, and whose daemons were never started
    packages: tuple[str, ...] = ()
    # hosts with an IPv6 address and no IPv4 address; like `offline` hosts, they reach no mirror
    ipv6: tuple[str, ...] = ()
    dual: tuple[str, ...] = ()  # hosts with an IPv4 and an IPv6 address; the cluster file has the IPv4 address
    # whose packages of Slurm the cluster file names: `debian`, or `smd`: a stand-in for SchedMD's, which hosts find
    # in a package source of their own (see `slurmfab.lab.smd_standin`), or one of `ENTERPRISE_LINUX`: hosts are a
    # stand-in for that, with such packages (`slurmfab.lab.el_standin`)
    slurm_packages: str = PACKAGED
    # `HOST:KIND`, as in `n2:el-smd`: compute nodes with another kind of these packages, on another system if need be
    other_packages: tuple[str, ...] = ()
    # whether hosts see an apt repository with a newer Slurm as /srv/newer-slurm (`slurm_repository`)
    newer_slurm: bool = False
    # `HOST:NAME`, as in `n1:cn01`: hosts that call themselves by another name than the lab does
    hostnames: tuple[str, ...] = ()
    # whether root of the hosts is nobody on this machine (`slurmfab.lab.private_users`)
    private_users: bool = False
    # `ubuntu-24.04` or `ubuntu-26.04`: hosts with the habits of that release of Ubuntu (`slurmfab.lab.ubuntu_like`)
    like: str = ""

    def __post_init__(self) -> None:
        complaints = (*self._shape_complaints(), *self._host_complaints())
        if complaints:
            raise InputError("\n".join(complaints))

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names of all hosts, controller first."""
        return (CONTROLLER, *(f"n{number}" for number in range(1, self.nodes + 1)))

    def hostname(self, host: str) -> str:
        """The name by which a host of the lab calls itself."""
        return dict(entry.split(":") for entry in self.hostnames).get(host, host)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of Slurm's packages of each host, by host."""
        return {**dict.fromkeys(self.host_names, self.slurm_packages), **self._other_kinds}

    @property
    def _other_kinds(self) -> dict[str, str]:
        return {host: kind for host, _, kind in (entry.partition(":") for entry in self.other_packages)}

    @property
    def gpu_models(self) -> dict[str, tuple[str, ...]]:
        """Models of the stand-in GPUs of each host, in the order of their device files' numbers."""
        models: dict[str, tuple[str, ...]] = {}
        for host, count, *model in (entry.split(":") for entry in self.gpus):
            name = "NVIDIA " + (model[0].replace("_", " ") if model else STAND_IN)
            models[host] = models.get(host, ()) + (name,) * int(count)
        return models

    @property
    def packages_of(self) -> dict[str, tuple[str, ...]]:
        """Names of the packages that each host has from the start, sorted, by host."""
        return {host: tuple(sorted(names.split(","))) for host, _, names in (x.partition(":") for x in self.packages)}

    def _shape_complaints(self) -> tuple[str, ...]:
        """Complaints about values that are not valid on their own."""
        complaints = []
        if not re.fullmatch(r"[a-z][a-z0-9]{0,7}", self.name):
            complaints.append(f'lab name "{self.name}": use one to eight of a-z and 0-9, a letter first.')
        if self.suite not in SUITES:
            complaints.append(f'suite "{self.suite}": the lab knows {", ".join(SUITES)}.')
        complaints += self._kind_complaints()
        if self.like:
            complaints += self._like_complaints()
        if not 1 <= self.nodes <= MOST_NODES:
            complaints.append(f"{self.nodes} nodes: the lab takes 1 to {MOST_NODES}.")
        if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,30}", self.ssh_user):
            complaints.append(f'user "{self.ssh_user}": this is no user name that Debian accepts.')
        if self.sudo_password and self.ssh_user == "root":
            complaints.append("root needs no sudo: name another user when sudo shall ask for a password.")
        complaints += [
            f'shared "{path}": name a directory by its absolute path, as in /shared.'
            for path in self.shared
            if not re.fullmatch(r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+", path)
        ]
        complaints += [
            f'shared "{path}": it is inside of "{outer}", which hosts can change. Share the outer one alone.'
            for path in self.shared
            for outer in self.shared
            if path.startswith(f"{outer}/")
        ]
        complaints += [
            f'{option} "{entry}": write {form}.'
            for option, (pattern, form) in _FORMS.items()
            for entry in getattr(self, option)
            if not re.fullmatch(pattern, entry)
        ]
        return tuple(complaints)

    def _kind_complaints(self) -> Iterator[str]:
        """Yield complaints about the kinds of Slurm packages."""
        kinds = {self.slurm_packages: None, **dict.fromkeys(self._other_kinds.values())}
        for kind in kinds:
            if kind not in SLURM_PACKAGES:
                yield (f'packages "{kind}": the lab knows {", ".join(SLURM_PACKAGES)}.')
            elif kind == "smd" and self.suite == "bookworm":
                yield ("SchedMD's packages begin with Slurm 23.11, and bookworm has 22.05: use trixie or sid.")
            elif kind in ENTERPRISE_LINUX and self.suite != UNDER_ENTERPRISE_LINUX:
                yield (f"The stand-in for Enterprise Linux is made of {UNDER_ENTERPRISE_LINUX}, not of {self.suite}.")
        if any(self.kinds.get(host, self.slurm_packages) in ENTERPRISE_LINUX for host in self.no_python):
            yield ("The stand-in for Enterprise Linux has python3.")
        if self.newer_slurm and {*kinds} & {*ENTERPRISE_LINUX[1:]}:
            yield ("A newer Slurm for Enterprise Linux is there as SchedMD's packages alone: el-smd.")

    def _like_complaints(self) -> Iterator[str]:
        """Yield complaints about what a look-alike of Ubuntu cannot be."""
        like = ubuntu_like.LIKES.get(self.like)
        if not like:
            yield f'like "{self.like}": the lab knows {", ".join(ubuntu_like.LIKES)}.'
            return
        if self.suite != like.suite:
            yield f"The look-alike of {self.like} is made of {like.suite}, not of {self.suite}."
        if self.ssh_user != ubuntu_like.USER:
            yield f"On the look-alike of Ubuntu the user is {ubuntu_like.USER}."
        if {*self.kinds.values()} != {PACKAGED} or self.no_python or self.hanging:
            yield "A look-alike of Ubuntu has Debian's packages of Slurm, has python3, and answers."

    def _host_complaints(self) -> tuple[str, ...]:
        """Complaints about hosts that the lab does not have, and about hosts that are both down and hanging."""
        known = set(self.host_names) if 1 <= self.nodes <= MOST_NODES else set()
        asked = {
            "gpus": tuple(entry.partition(":")[0] for entry in self.gpus),
            "no_python": self.no_python,
            "down": self.down,
            "hanging": self.hanging,
            "unified": self.unified,
            "offline": self.offline,
            "packages": tuple(entry.partition(":")[0] for entry in self.packages),
            "ipv6": self.ipv6,
            "dual": self.dual,
            "hostnames": tuple(entry.partition(":")[0] for entry in self.hostnames),
            "other_packages": tuple(entry.partition(":")[0] for entry in self.other_packages),
        }
        last = self.host_names[-1]
        complaints = [
            f'{option} names "{host}": the lab has {CONTROLLER} and n1 to {last}.'
            for option, hosts in asked.items()
            for host in hosts
            if known and host not in known
        ]
        both = sorted(set(self.down) & set(self.hanging))
        complaints += [f"{host} cannot be down and hanging at once." for host in both]
        several = sorted(set(self.ipv6) & set(self.dual))
        complaints += [f"{host} cannot have IPv6 alone (ipv6) and both addresses (dual) at once." for host in several]
        return tuple(complaints)


@dataclass(frozen=True)
class LabHost:
    """One host of a lab and its state when it was inspected."""

    lab: str
    name: str
    address: str  # IPv4 address; the IPv6 address of a host without one
    role: str  # `controller` or `compute`
    # its public SSH host keys: type, such as `ssh-ed25519`, to base64
    host_keys: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None  # PID on this machine of the host's PID 1; None if the host is off
    # of port 22: `answers` (SSH banner), `silent` (accepts connections, sends nothing) or `off`; `off` too where it
    # was not probed
    state: str = "off"
    ipv6: str = ""  # IPv6 address; empty for a host without one


@dataclass(frozen=True)
class Lab:
    """A lab that is up."""

    name: str
    suite: str
    hosts: tuple[LabHost, ...]  # the controller first, then the compute nodes
    directory: Path  # directory with the lab's files
    ssh_key: Path  # private key for logins on all hosts
    cluster_file: Path
    spec: LabSpec

    def host(self, name: str) -> LabHost:
        """The host of this name; raises InputError if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise InputError(f'lab {self.name} has no host "{name}".')
