"""An account tree, and a host whose sacctmgr printed once what slurmdbd made of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurm_output_files import text as recorded
from support import cluster, facts_of, plan_input, prepared

from slurmfab.agent.accounting.tree import AccountTree
from slurmfab.agent.core.resource import Context
from slurmfab.plan.phases import accounts

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
    commands: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.root, self.dry_run)

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if "show" not in argv:
            self.commands.append(list(argv[2:]))
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        part = "onlydefaults" if "onlydefaults" in argv else argv[3]
        shown = self.other.get(part, recorded(self.version, f"sacctmgr-{part}"))
        return subprocess.CompletedProcess(argv, 0, shown.encode(), b"")


def tree(text: str = TREE, version: str = "24.11", kind: type[AccountTree] = AccountTree, **more: Any) -> AccountTree:
    """The resource that a cluster file ends in, on hosts with a version of Slurm."""
    known = cluster(HEAD + text)
    now = plan_input(known, facts_of(known, prepared, slurm=f"{version}.1"))
    return kind(**{**accounts.tree(now), "conf": ""}, **more)
