"""How hosts are reached: by plain OpenSSH clients, whose logins are the floor, and by whoever else needs an address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.programs import timed
from benchmarks.results import Sample
from slurmfab.lab import Lab

SSH_PORT = 22
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR")


@dataclass(frozen=True)
class Place:
    """Where a host's sshd listens.

    Args:
        name: the host's name.
        address: to connect to.
        port: to connect to.
        host_keys: its public host keys: type to base64.
        behind: the host's own address, where connections go through something in between; empty otherwise.
    """

    name: str
    address: str
    port: int
    host_keys: Mapping[str, str]
    behind: str = ""

    @property
    def known_as(self) -> str:
        """Its name in known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
        return self.address if self.port == SSH_PORT else f"[{self.address}]:{self.port}"


@dataclass(frozen=True)
class Access:
    """The way to some hosts as root, and the files that OpenSSH needs for it.

    Args:
        places: of the hosts, the controller first.
        key: private key that opens them.
        directory: where `ssh_config` and `known_hosts` are.
    """

    places: tuple[Place, ...]
    key: Path
    directory: Path

    @property
    def config(self) -> Path:
        """For `ssh -F`."""
        return self.directory / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """The hosts' keys."""
        return self.directory / "known_hosts"

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts' names."""
        return tuple(place.name for place in self.places)

    def only(self, names: Iterable[str]) -> Access:
        """The way to some of the hosts; the files are the same."""
        wanted = frozenset(names)
        return replace(self, places=tuple(place for place in self.places if place.name in wanted))

    def write(self) -> Access:
        """Write the files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = []
        for place in self.places:
            lines += [f"Host {place.name}", f"  HostName {place.address}", f"  Port {place.port}"]
        lines += ["Host *", "  User root", f"  IdentityFile {self.key}", "  IdentitiesOnly yes"]
        lines += [f"  UserKnownHostsFile {self.known_hosts}", "  GlobalKnownHostsFile none"]
        self.config.write_text("\n".join(lines) + "\n")
        keys = (f"{place.known_as} {kind} {key}\n" for place in self.places for kind, key in place.host_keys.items())
        self.known_hosts.write_text("".join(keys))
        return self

    def ssh(self, host: str, *command: str) -> tuple[str, ...]:
        """The words of a plain OpenSSH client that runs a command on a host."""
        return (*SSH, "-F", str(self.config), host, *command)

    def everywhere(self, command: str, *options: str, at_once: int = 0, patience: float = 900.0) -> Sample:
        """Run a command on all hosts by plain OpenSSH clients, one for each host, and tell what that took.

        Args:
            command: for the hosts' shell.
            options: more words for the clients.
            at_once: how many clients run at a time; all of them when 0.
            patience: seconds for all together.

        Raises:
            ProgramFailed: it failed somewhere.
        """
        return each(dict.fromkeys(self.names, command), self, *options, at_once=at_once, patience=patience)


def each(
    commands: Mapping[str, str], access: Access, *options: str, at_once: int = 0, patience: float = 900.0
) -> Sample:
    """Run a command of its own on each host, side by side, started by xargs(1).

    Raises:
        ProgramFailed: it failed somewhere.
    """
    words = "".join(f"{host}\0{command}\0" for host, command in commands.items())
    clients: Sequence[str] = (*SSH, "-F", str(access.config), *options)
    argv = ("xargs", "-0", "-n", "2", "-P", str(at_once or len(commands)), *clients)
    return timed(argv, text=words, patience=patience)


def of_lab(lab: Lab, directory: Path) -> Access:
    """The way to all hosts of a lab."""
    places = tuple(Place(host.name, host.address, SSH_PORT, host.host_keys) for host in lab.hosts)
    return Access(places, lab.ssh_key, directory).write()
