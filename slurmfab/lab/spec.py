"""What a lab is asked to be (LabSpec) and what it turned out to be (Lab, LabHost)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurmfab.errors import InputError

SUITES = ("bookworm", "trixie", "sid")
"""Debian suites that lab hosts can run: Slurm 22.05, 24.11 and whatever is newest."""

MOST_NODES = 200
"""Compute nodes that fit into the lab's /24 beside the controller."""

STAND_IN = "Lab Stand-in"
"""The model of a GPU for which none is asked."""

CONTROLLER = "ctl"
"""Host name of the controller."""


@dataclass(frozen=True)
class LabSpec:
    """What a lab shall be.

    Args:
        name: one to eight of a-z and 0-9, a letter first; part of the names of the bridge, the namespaces, the cgroups.
        suite: Debian suite of all hosts: bookworm, trixie or sid.
        nodes: number of compute nodes; they are called n1, n2, …; the controller is ctl.
        gpus: `HOST:COUNT` or `HOST:COUNT:MODEL`, as in `n1:2` or `n1:2:A100-SXM4-40GB`: device files and a stand-in
            nvidia-smi that names the model, no real GPU. Underscores in MODEL stand for blanks; a host may be there
            several times, with another model each time.
        no_python: hosts without python3.
        ssh_user: who may log in with the lab's key: root, or another user, who then has sudo.
        sudo_password: that user's sudo asks for a password; it is in the file `sudo_password` of the lab's directory.
        down: hosts that the cluster file names but that stay switched off.
        hanging: hosts whose port 22 accepts connections and then says nothing.
        apt_lists: the hosts have package lists already; False is a machine that needs its own `apt-get update`.
        loopback_name: /etc/hosts gives the host's own name 127.0.1.1, as the Debian installer does on machines
            with DHCP, instead of its address.
        shared: absolute paths of directories that all hosts see, as a stand-in for a network file system.
        unified: hosts that have control groups of version 2 alone; where this machine has its controllers on version 1
            none are left for them, and Slurm cannot use what they have.
        offline: hosts with a way to the lab's other hosts and to this machine, and to nothing else; they have neither
            package lists nor downloaded packages.

    Raises:
        InputError: a value that makes no lab.
    """

    name: str = "lab"
    suite: str = "trixie"
    nodes: int = 2
    gpus: tuple[str, ...] = ()
    no_python: tuple[str, ...] = ()
    ssh_user: str = "root"
    sudo_password: bool = False
    down: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()
    apt_lists: bool = True
    loopback_name: bool = False
    shared: tuple[str, ...] = ()
    unified: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        complaints = (*self._shape_complaints(), *self._host_complaints())
        if complaints:
            raise InputError("\n".join(complaints))

    @property
    def host_names(self) -> tuple[str, ...]:
        """All host names, the controller first."""
        return (CONTROLLER, *(f"n{number}" for number in range(1, self.nodes + 1)))

    @property
    def gpu_counts(self) -> dict[str, int]:
        """Number of stand-in GPUs by host."""
        return {host: len(models) for host, models in self.gpu_models.items()}

    @property
    def gpu_models(self) -> dict[str, tuple[str, ...]]:
        """The model of each stand-in GPU by host, in the order of the device files' numbers."""
        models: dict[str, tuple[str, ...]] = {}
        for host, count, *model in (entry.split(":") for entry in self.gpus):
            name = "NVIDIA " + (model[0].replace("_", " ") if model else STAND_IN)
            models[host] = models.get(host, ()) + (name,) * int(count)
        return models

    def _shape_complaints(self) -> tuple[str, ...]:
        """Complaints about values that are wrong by themselves."""
        complaints = []
        if not re.fullmatch(r"[a-z][a-z0-9]{0,7}", self.name):
            complaints.append(f'lab name "{self.name}": use one to eight of a-z and 0-9, a letter first.')
        if self.suite not in SUITES:
            complaints.append(f'suite "{self.suite}": the lab knows {", ".join(SUITES)}.')
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
            f'gpus "{entry}": write HOST:COUNT or HOST:COUNT:MODEL, as in n1:2 or n1:2:A100-SXM4-40GB, with a count '
            "of 1 to 16."
            for entry in self.gpus
            if not re.fullmatch(r"[^:]+:([1-9]|1[0-6])(:[A-Za-z0-9][A-Za-z0-9_.-]*)?", entry)
        ]
        return tuple(complaints)

    def _host_complaints(self) -> tuple[str, ...]:
        """Complaints about hosts that the lab does not have, or that are asked for two things at once."""
        known = set(self.host_names) if 1 <= self.nodes <= MOST_NODES else set()
        asked = {
            "gpus": tuple(entry.partition(":")[0] for entry in self.gpus),
            "no_python": self.no_python,
            "down": self.down,
            "hanging": self.hanging,
            "unified": self.unified,
            "offline": self.offline,
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
        return tuple(complaints)


@dataclass(frozen=True)
class LabHost:
    """One host of a lab, as it is at one moment.

    Args:
        lab: name of its lab.
        name: host name.
        address: IPv4 address.
        role: `controller` or `compute`.
        host_keys: its SSH host keys: type, as in `ssh-ed25519`, to base64.
        pid: its PID 1 as this machine sees it; None when it is switched off.
        state: `answers` (sshd speaks), `silent` (on, but port 22 says nothing) or `off`.
    """

    lab: str
    name: str
    address: str
    role: str
    host_keys: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None
    state: str = "off"


@dataclass(frozen=True)
class Lab:
    """A lab that is up.

    Args:
        name: the lab's name.
        suite: Debian suite of its hosts.
        hosts: the controller first, then the compute nodes.
        directory: where the lab keeps everything of its own.
        ssh_key: private key that opens every host.
        cluster_file: the cluster file that was written for this lab.
        spec: what the lab was asked to be.
    """

    name: str
    suite: str
    hosts: tuple[LabHost, ...]
    directory: Path
    ssh_key: Path
    cluster_file: Path
    spec: LabSpec

    def host(self, name: str) -> LabHost:
        """The host of that name; raises InputError when there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise InputError(f'lab {self.name} has no host "{name}".')
