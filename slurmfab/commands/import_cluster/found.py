"""What a living cluster has, as its hosts show it, and what becomes of it; plain data without any decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.base.json_output import Key, shows
from slurmfab.cluster.facts import HostFacts
from slurmfab.on_hosts.agent.logs.secret_detectors import value_without_secrets


@dataclass(frozen=True)
class FoundFile:
    """One of Slurm's files on a host."""

    path: str  # absolute, as the daemon uses it
    text: str = field(repr=False)  # its content, without secrets (the value of StoragePass is left out)
    mode: int = 0o644
    link: str = ""  # where a symbolic link leads; empty for a file


@dataclass(frozen=True)
class HostFiles:
    """What Slurm has on one host."""

    # slurm.conf first, then its includes, the other files of its directory, and the programs that it names
    files: tuple[FoundFile, ...]
    program: str = ""  # path of the daemon, such as `/usr/sbin/slurmd` or `/opt/slurm/sbin/slurmctld`; empty for none
    version: str = ""  # the daemon's version, such as `24.11.5`; empty if it did not tell
    configless: bool = False
    drop_ins: tuple[FoundFile, ...] = ()  # files of the administrators that extend Slurm's systemd units
    # the text of slurm.conf with all that it includes; without passwords, as `files`
    slurm_conf: str = field(default="", repr=False)
    # by path, why a file that belongs to Slurm is not in `files`: it is missing, stays on the host because only root
    # may read it, or is no file of Slurm's directory
    left: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""  # the same on two hosts only if they read one slurm.conf, on a file system that they share; or empty

    def file(self, name: str) -> FoundFile | None:
        """The first file with this name, whatever its directory; `None` if the host has none."""
        return next((one for one in self.files if one.path.rpartition("/")[2] == name), None)


@dataclass(frozen=True)
class FoundCluster:
    """A cluster that slurmfab did not make."""

    controller: str  # its primary controller, by the name in slurm.conf
    hosts: Mapping[str, HostFiles]  # what each host has, by name; hosts that did not answer are missing
    facts: Mapping[str, HostFacts]  # facts of the hosts that answered, by name
    addresses: Mapping[str, str]  # by name, the address that SSH reached or tried
    # what sacctmgr shows, as `accounting.export.ask` returns it; `None` without slurmdbd
    accounts: Mapping[str, Any] | None = None
    unreachable: Mapping[str, str] = field(default_factory=dict)  # hosts that did not answer, with the reason
    # hosts of `unreachable` that answered and were left out, because what they said was in the way; with the reason
    doubted: Mapping[str, str] = field(default_factory=dict)
    federation: str = ""  # the federation that the cluster is in; empty for none
    # how SSH reached the hosts, as the section `ssh` of a cluster file
    ssh: Mapping[str, Any] = field(default_factory=dict)
    # the users of the accounts that the controller knows (getent); `None` if it was not asked
    people: frozenset[str] | None = None


@shows("file", "key", Key("value", "shown"), "where")
@dataclass(frozen=True)
class Kept:
    """What became of a key of an old file."""

    file: str  # such as `slurm.conf`
    key: str  # the key, spelled as in the file; with the line's name in front, such as `node n[1-4]: Weight`
    value: str
    where: str  # where it went: a place in the cluster file such as `slurm_conf.KillWait`, or why it is left out

    @property
    def shown(self) -> str:
        """Its value there, without secrets."""
        return value_without_secrets(self.key, self.value)


@dataclass(frozen=True)
class Takeover:
    """The result of a survey: what is written beside each other, and what people should know."""

    text: str  # of the cluster file, with comments
    # content by path relative to the cluster file, such as `slurm_files/topology.conf`
    files: Mapping[str, bytes] = field(default_factory=dict)
    programs: tuple[str, ...] = ()  # the paths of `files` that are executable
    remarks: tuple[str, ...] = ()  # what was left out and why, what differs between hosts; each a sentence or more
    account: tuple[Kept, ...] = ()  # every key of the old files, in their order
