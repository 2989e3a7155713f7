"""An account tree, and a host whose sacctmgr printed once what slurmdbd made of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurm_output_files import text as recorded
from support import prepared_input

from slurmfab.core.plan.phases import accounts
from slurmfab.on_hosts.agent.accounting.tree import AccountTree
from slurmfab.on_hosts.agent.core.resource import Context

HEAD = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
database: c1
"""
TREE = """\
qos:
  - {name: normal, MaxTRESPU: "gres/gpu=1,cpu=2", MaxJobsPU: 10}
  - name: high
    Priority: 1000
    Preempt: "low, normal"
    PreemptMode: requeue
    MaxWall: 1-00:00:00
    Flags: "DenyOnLimit,OverPartQOS"
    GrpTRES: "mem=10240,cpu=100"
  - {name: low, GraceTime: 60, UsageFactor: 0.5}
accounts:
  - {name: theory, parent: physics, Fairshare: 10, MaxWall: 90, GrpTRES: "cpu=5,mem=10250M,node=3"}
  - {name: physics, description: The Physics People, organization: Uni, coordinators: ada, QOS: "normal,high,low"}
  - name: biology
users:
  - {name: ada, accounts: [theory, physics], DefaultQOS: high, AdminLevel: operator,
     associations: {physics: {MaxJobs: 5}}}
  - {name: bob, accounts: biology, Fairshare: 5}
"""


@dataclass
class Recorded(Context):
    """A host on which sacctmgr prints what it printed once, and takes every command."""

    root: str = "/"
    dry_run: bool = False
    version: str = "24.11"
    other: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    alone: Mapping[tuple[str, str], str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.root, self.dry_run)

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if "show" not in argv:
            self.commands.append(list(argv[2:]))
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        part = "onlydefaults" if "onlydefaults" in argv else argv[3]
        columns = argv[-1].partition("=")[2].split(",")
        rows = self.rows(part, len(columns))
        if argv[1] == "-n":
            shown = b"".join(fixed(row, [int(column.partition("%-")[2]) for column in columns]) for row in rows)
        elif argv[-2].startswith("name="):
            shown = self.alone[argv[-2], columns[0]].encode()
        else:
            shown = "".join("|".join(row) + "\n" for row in rows).encode()
        return subprocess.CompletedProcess(argv, 0, shown, b"")

    def rows(self, part: str, count: int) -> list[list[str]]:
        """The rows of a table, with the IDs of associations, which were not recorded."""
        if part == "transactions":
            return [list(row) for row in self.more.get(part, ())]
        lines = {name: self.other.get(name, recorded(self.version, f"sacctmgr-{name}")).splitlines() for name in
                 {part, *(("assoc",) if part == "onlydefaults" else ())}}  # fmt: skip
        rows = [line.split("|", count - 1 if part not in ("assoc", "onlydefaults") else -1) for line in lines[part]]
        if part == "onlydefaults":
            places = [line.split("|")[:2] for line in lines["assoc"]]
            return [[str(places.index(row) + 1)] for row in rows if row in places]
        if part == "assoc":
            known = [[str(number), *row] for number, row in enumerate(rows, 1)]
            rows = [row[:5] if count == PLACE_COLUMNS else [row[0], *row[5:]] for row in known]
            fresh = self.more.get(part, ())
            return [*rows, *(list(row) if count == PLACE_COLUMNS else [row[0], *[""] * (count - 1)] for row in fresh)]
        return [*rows, *(list(row) for row in self.more.get(part, ()))]


PLACE_COLUMNS = 5
"""The number of columns of a question for places of associations."""


def fixed(row: Sequence[str], widths: Sequence[int]) -> bytes:
    """A row as sacctmgr prints it with widths, to the left: a longer text ends in `+`."""
    found = [text.encode() for text in row]
    cut = [text if len(text) <= width else text[: width - 1] + b"+" for text, width in zip(found, widths, strict=True)]
    return b"".join(text.ljust(width) + b" " for text, width in zip(cut, widths, strict=True)) + b"\n"


def tree(text: str = TREE, version: str = "24.11", kind: type[AccountTree] = AccountTree, **more: Any) -> AccountTree:
    """The resource that a cluster file ends in, on hosts with a version of Slurm."""
    now = prepared_input(HEAD + text, slurm=f"{version}.1")
    return kind(**{**accounts.tree(now), "conf": ""}, **more)
