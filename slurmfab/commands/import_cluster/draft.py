"""The values of a cluster file that is being made, before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Overrides = Mapping[str, str | None]
"""Keys of one of Slurm's files; `None` leaves out the line that slurmfab would write."""

Comments = tuple[str, ...]


@dataclass(frozen=True)
class PartitionDraft:
    """A partition."""

    name: str
    nodes: tuple[str, ...] | Literal["ALL"]  # its nodes, in the order of the old file, or `ALL`
    settings: Mapping[str, str] = field(default_factory=dict)  # the other keys of its line, spelled as in slurm.conf(5)
    comments: Comments = ()


@dataclass(frozen=True)
class Draft:
    """A cluster file."""

    name: str
    controllers: tuple[str, ...]  # the primary first
    ssh: Mapping[str, Any] = field(default_factory=dict)  # the section `ssh`, without endpoints
    endpoints: Mapping[str, str] = field(default_factory=dict)  # by host, where SSH goes if not to its address
    addresses: Mapping[str, str] = field(default_factory=dict)  # by host
    slurm: Mapping[str, str] = field(default_factory=dict)  # the section `slurm`; empty for the distribution's packages
    ids: Mapping[str, int] = field(default_factory=dict)  # UID of slurm and munge, where the default is another one
    state_directory: str = ""  # StateSaveLocation; empty for the default one
    slurm_conf_directory: str = ""  # directory of Slurm's files that all hosts share; empty for none
    database: Mapping[str, str] = field(default_factory=dict)  # the section `database`; empty for none
    # settings by compute node, in the order of the old file
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    node_comments: Mapping[str, Comments] = field(default_factory=dict)
    partitions: tuple[PartitionDraft, ...] = ()  # in the order of the old file
    own_partition: bool = False  # whether the old file has slurmfab's own partition already
    configless: bool = False
    # keys of slurm.conf in the order of the old file; `cgroup_conf` and `slurmdbd_conf` likewise
    slurm_conf: Overrides = field(default_factory=dict)
    cgroup_conf: Overrides = field(default_factory=dict)
    slurmdbd_conf: Overrides = field(default_factory=dict)
    # by name of a file in Slurm's directory, its path beside the cluster file
    slurm_files: Mapping[str, str] = field(default_factory=dict)
    # by file and key in lower case, such as `("slurm.conf", "killwait")`, the comments above it
    comments: Mapping[tuple[str, str], Comments] = field(default_factory=dict)
    # by file and key in lower case, the value that slurmfab would write
    ours: Mapping[tuple[str, str], str] = field(default_factory=dict)
    slurm_user: str = "slurm"  # SlurmUser
    keep_files: bool = False  # whether no deployment writes Slurm's files
    adopts_least: bool = False  # whether what the cluster did not have is switched off: logins of slurm, names of hosts
    accounts: str = ""  # the sections `qos`, `accounts` and `users` as text

    @property
    def groups(self) -> tuple[tuple[tuple[str, ...], Mapping[str, str]], ...]:
        """The compute nodes with equal settings and comments, in the order of the first node of each group."""
        found: dict[tuple[Comments, tuple[tuple[str, str], ...]], list[str]] = {}
        for node, settings in self.nodes.items():
            found.setdefault((self.node_comments.get(node, ()), tuple(settings.items())), []).append(node)
        return tuple((tuple(names), dict(settings)) for (_, settings), names in found.items())
