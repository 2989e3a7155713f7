"""What a living cluster has, as its hosts show it, and what becomes of it; plain data without any decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.cluster.facts import HostFacts
from slurmfab.on_hosts.agent.logs.secret_texts import value_without_secrets


@dataclass(frozen=True)
class FoundFile:
    """One of Slurm's files on a host.

    Args:
        path: absolute, as the daemon uses it.
        text: its content, without secrets (the value of StoragePass is left out).
        mode: permission bits.
        link: where a symbolic link leads; empty for a file.
    """

    path: str
    text: str = field(repr=False)
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True)
class HostFiles:
    """What Slurm has on one host.

    Args:
        files: slurm.conf first, then its includes, the other files of its directory, and the programs that it names.
        program: path of the daemon, such as `/usr/sbin/slurmd` or `/opt/slurm/sbin/slurmctld`; empty for none.
        version: the daemon's version, such as `24.11.5`; empty if it did not tell.
        configless: whether slurmd fetches its files from slurmctld.
        drop_ins: files of the administrators that extend Slurm's systemd units.
        slurm_conf: the text of slurm.conf with all that it includes; without passwords, as `files`.
        left: by path, why a file that belongs to Slurm is not in `files`: it is missing, stays on the host because only
            root may read it, or is no file of Slurm's directory.
        mark: the same on two hosts only if they read one slurm.conf, on a file system that they share; or empty.
    """

    files: tuple[FoundFile, ...]
    program: str = ""
    version: str = ""
    configless: bool = False
    drop_ins: tuple[FoundFile, ...] = ()
    slurm_conf: str = field(default="", repr=False)
    left: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""

    def file(self, name: str) -> FoundFile | None:
        """The first file with this name, whatever its directory; `None` if the host has none."""
        return next((one for one in self.files if one.path.rpartition("/")[2] == name), None)


@dataclass(frozen=True)
class FoundCluster:
    """A cluster that slurmfab did not make.

    Args:
        controller: its primary controller, by the name in slurm.conf.
        hosts: what each host has, by name; hosts that did not answer are missing.
        facts: facts of the hosts that answered, by name.
        addresses: by name, the address that SSH reached or tried.
        accounts: what sacctmgr shows, as `accounting.export.ask` returns it; `None` without slurmdbd.
        unreachable: hosts that did not answer, with the reason.
        federation: the federation that the cluster is in; empty for none.
        ssh: how SSH reached the hosts, as the section `ssh` of a cluster file.
        people: the users of the accounts that the controller knows (getent); `None` if it was not asked.
    """

    controller: str
    hosts: Mapping[str, HostFiles]
    facts: Mapping[str, HostFacts]
    addresses: Mapping[str, str]
    accounts: Mapping[str, Any] | None = None
    unreachable: Mapping[str, str] = field(default_factory=dict)
    federation: str = ""
    ssh: Mapping[str, Any] = field(default_factory=dict)
    people: frozenset[str] | None = None


@dataclass(frozen=True)
class Kept:
    """What became of one key of one of the old files.

    Args:
        file: the file's name, such as `slurm.conf`.
        key: the key, spelled as in the file; with the line's name in front, such as `node n[1-4]: Weight`.
        value: its value.
        where: where it went: a place in the cluster file such as `slurm_conf.KillWait`, or why it is left out.
    """

    file: str
    key: str
    value: str
    where: str

    @property
    def shown(self) -> str:
        """The value for people, without secrets."""
        return value_without_secrets(self.key, self.value)


@dataclass(frozen=True)
class Takeover:
    """The result of a survey: what is written beside each other, and what people should know.

    Args:
        text: of the cluster file, with comments.
        files: content by path relative to the cluster file, such as `slurm_files/topology.conf`.
        programs: the paths of `files` that are executable.
        remarks: what was left out and why, what differs between hosts; each a sentence or more.
        account: every key of the old files, in their order.
    """

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    account: tuple[Kept, ...] = ()
