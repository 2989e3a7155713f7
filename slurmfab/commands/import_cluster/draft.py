"""The values of a cluster file that is being made, before it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slurmfab.cluster.slurm.conf_text import COMMENT, logical_lines

Overrides = Mapping[str, str | None]
"""Keys of one of Slurm's files; `None` leaves out the line that slurmfab would write."""

Comments = tuple[str, ...]

MOST_COMMENTS = 12
"""The most lines of comments that come along with one key; a longer block is about more than this key."""

LONGEST_COMMENT = 160
EMPTY = ("", "#")  # lines that separate comments from what follows
_OFF = re.compile(r"([A-Za-z0-9_]+)\s*=")  # the beginning of a key that somebody has switched off by a `#`


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
    # settings by node that is not there yet
    future_nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    partitions: tuple[PartitionDraft, ...] = ()  # in the order of the old file
    own_partition: bool = False  # whether the old file has slurmfab's own partition already
    configless: bool = False
    # keys of slurm.conf in the order of the old file; `cgroup_conf` and `slurmdbd_conf` likewise
    slurm_conf: Overrides = field(default_factory=dict)
    cgroup_conf: Overrides = field(default_factory=dict)
    slurmdbd_conf: Overrides = field(default_factory=dict)
    # keys that slurm.conf shall not get by a database that comes later, with the values that slurmfab would write
    of_database: Mapping[str, str] = field(default_factory=dict)
    # by name of a file in Slurm's directory, its path beside the cluster file
    slurm_files: Mapping[str, str] = field(default_factory=dict)
    # `prolog` and `epilog`: the directory beside the cluster file with the scripts
    scripts: Mapping[str, str] = field(default_factory=dict)
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
        return self.grouped(self.nodes)

    def grouped(self, nodes: Mapping[str, Mapping[str, str]]) -> tuple[tuple[tuple[str, ...], Mapping[str, str]], ...]:
        """Nodes with equal settings and comments, likewise."""
        found: dict[tuple[Comments, tuple[tuple[str, str], ...]], list[str]] = {}
        for node, settings in nodes.items():
            found.setdefault((self.node_comments.get(node, ()), tuple(settings.items())), []).append(node)
        return tuple((tuple(names), dict(settings)) for (_, settings), names in found.items())


@dataclass(frozen=True)
class OldLine:
    """One line that sets something."""

    pairs: tuple[tuple[str, str], ...]  # its keys and values, spelled as in the file
    comments: tuple[str, ...] = ()  # the comments directly above it and behind it, without `#`

    @property
    def kind(self) -> str:
        """Its first key in lower case."""
        return self.pairs[0][0].lower()


def old_lines(text: str) -> Iterator[OldLine]:
    """Yield the lines of a file that set something, in its order."""
    above: list[str] = []
    for raw in text.replace("\\\n", "").splitlines():
        pairs = next(logical_lines(raw), ())
        found = COMMENT.search(raw)
        behind = comment_text(found[0]) if found else ""
        if pairs:
            yield OldLine(tuple(pairs), tuple(filter(None, (*above[-MOST_COMMENTS:], behind))))
        if pairs or raw.strip() in EMPTY:
            above = []
        elif off := _OFF.match(raw.strip(" \t#")):
            # `# Prolog` above `#Prolog=` says nothing of the next key.
            above = [one for one in above if one.lower() != off[1].lower()]
        else:
            above.append(behind)


def comment_text(comment: str) -> str:
    """The text of a comment; empty for a decoration, and for a key that is switched off."""
    text = "".join(char if char.isprintable() else " " for char in comment.strip().lstrip("#")).strip(" -=*#")
    is_telling = any(map(str.isalnum, text)) and not _OFF.match(text)
    return text[:LONGEST_COMMENT] if is_telling else ""


def comments_by_key(text: str) -> Mapping[str, tuple[str, ...]]:
    """The comments of each setting, by its key in lower case; those of its last line."""
    lines = (line for line in old_lines(text) if line.comments)
    return {line.kind: line.comments for line in lines}
