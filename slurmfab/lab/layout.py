"""Where a lab's things are and what they are called: all of it follows from the lab's name.

Because nothing here depends on a run, `down` finds what a killed `up` has left. Interface names stay within the 15
characters that Linux allows: at most `sf` + 8 + `-` + 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LABS = Path("/var/lib/slurmfab/labs")
"""One directory per lab."""

CACHE = Path("/var/cache/slurmfab")
"""Base trees, one per suite; they outlive labs."""


@dataclass(frozen=True)
class HostLayout:
    """Names and places of one host.

    Args:
        lab: the lab's name.
        name: the host's name.
    """

    lab: str
    name: str

    @property
    def directory(self) -> Path:
        """Everything of this host."""
        return LABS / self.lab / "hosts" / self.name

    @property
    def root(self) -> Path:
        """Where its root file system is mounted."""
        return self.directory / "root"

    @property
    def keys(self) -> Path:
        """Its SSH host keys, as the lab made them."""
        return LABS / self.lab / "keys" / self.name

    @property
    def console(self) -> Path:
        """What it printed while booting."""
        return self.directory / "console.log"

    def shared(self, path: str) -> Path:
        """Where a directory really is that all hosts of the lab see at this path."""
        return LABS / self.lab / "shared" / path.lstrip("/")

    @property
    def machine(self) -> str:
        """Its name for systemd-nspawn."""
        return f"{self.lab}-{self.name}"

    @property
    def namespace(self) -> str:
        """Its network namespace."""
        return f"sf-{self.lab}-{self.name}"

    @property
    def link(self) -> str:
        """This machine's end of its network cable."""
        return f"sf{self.lab}-{self.name}"


@dataclass(frozen=True)
class LabLayout:
    """Names and places of one lab."""

    lab: str

    @property
    def directory(self) -> Path:
        """Everything of this lab."""
        return LABS / self.lab

    @property
    def state(self) -> Path:
        """What `down` must know, written before anything else is made."""
        return self.directory / "state.json"

    @property
    def ssh_key(self) -> Path:
        """The private key that opens every host."""
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The hosts' SSH keys for OpenSSH."""
        return self.directory / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """Configuration for `ssh -F`, by host name."""
        return self.directory / "ssh_config"

    @property
    def sudo_password(self) -> Path:
        """The password that sudo asks for, where it does."""
        return self.directory / "sudo_password"

    @property
    def bridge(self) -> str:
        """The switch that all hosts are plugged into."""
        return f"sf-{self.lab}"

    @property
    def table(self) -> str:
        """The nftables table."""
        return f"slurmfab_{self.lab}"

    @property
    def cgroup(self) -> str:
        """The lab's directory in every cgroup hierarchy."""
        return f"slurmfab-{self.lab}"

    def host(self, name: str) -> HostLayout:
        """Names and places of one host of this lab."""
        return HostLayout(self.lab, name)
