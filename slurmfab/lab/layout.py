"""Paths and names of everything of a lab, from its name alone; interface names have at most 15 characters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LABS = Path("/var/lib/slurmfab/labs")  # contains one directory per lab
CACHE = Path("/var/cache/slurmfab")  # contains the base trees of each suite; they stay when labs are removed
DISKS = Path("/var/lib/slurmfab/disks")  # contains the disks kept from removed labs (see `slurmfab.lab.disks`)

ROOM = Path("/run/slurmfab-labs")  # whose lock a process has that looks whether these need a tmpfs


@dataclass(frozen=True)
class HostLayout:
    """Names and paths of one host."""

    lab: str
    name: str

    @property
    def directory(self) -> Path:
        """Directory with the host's overlay, console log and other files."""
        return LABS / self.lab / "hosts" / self.name

    @property
    def root(self) -> Path:
        """Mount point of the host's root file system."""
        return self.directory / "root"

    @property
    def layers(self) -> Path:
        """File that lists the overlay directories above the base tree (see `disks.layers_of`); a bare host has none."""
        return self.directory / "layers"

    @property
    def keys(self) -> Path:
        """Directory with the host's SSH host keys."""
        return LABS / self.lab / "keys" / self.name

    @property
    def console(self) -> Path:
        """Log of the host's console output."""
        return self.directory / "console.log"

    def shared(self, path: str) -> Path:
        """Directory on this machine that all hosts of the lab mount at `path`."""
        return LABS / self.lab / "shared" / path.lstrip("/")

    @property
    def machine(self) -> str:
        """Machine name for systemd-nspawn, which no machine of others has."""
        return f"slurmfab-{self.lab}-{self.name}"

    @property
    def namespace(self) -> str:
        """Name of the host's network namespace."""
        return f"sf-{self.lab}-{self.name}"

    @property
    def link(self) -> str:
        """Interface on this machine, the outer end of the host's veth pair."""
        return f"sf{self.lab}-{self.name}"


@dataclass(frozen=True)
class LabLayout:
    """Names and paths of one lab."""

    lab: str

    @property
    def directory(self) -> Path:
        """Directory with all files of the lab."""
        return LABS / self.lab

    @property
    def state(self) -> Path:
        """File with the lab's state, which `down` needs; it is written before anything else is made."""
        return self.directory / "state.json"

    @property
    def ssh_key(self) -> Path:
        """Private key for logins on all hosts."""
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """known_hosts file for OpenSSH with the hosts' SSH keys."""
        return self.directory / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """Configuration file for `ssh -F` with an entry per host name."""
        return self.directory / "ssh_config"

    @property
    def sudo_password(self) -> Path:
        """File with the sudo password, in labs whose sudo asks for one."""
        return self.directory / "sudo_password"

    @property
    def bridge(self) -> str:
        """Name of the bridge interface that all hosts are connected to."""
        return f"sf-{self.lab}"

    @property
    def table(self) -> str:
        """Name of the lab's nftables tables, of the families ip and inet."""
        return f"slurmfab_{self.lab}"

    @property
    def cgroup(self) -> str:
        """Name of the lab's directory in every cgroup hierarchy."""
        return f"slurmfab-{self.lab}"

    def host(self, name: str) -> HostLayout:
        """Names and paths of one host of this lab."""
        return HostLayout(self.lab, name)
