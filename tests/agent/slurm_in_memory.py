"""A Slurm whose nodes are in memory: what `scontrol` would answer, for resources that run on the controller."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

STAMP = "ann@laptop 2026-11-21T09:00"


@dataclass
class Slurm(Context):
    """A controller whose scontrol works on nodes in memory.

    Args:
        nodes: state, reason and who gave it, by name.
        refuses: what `scontrol update` complains of, empty when it does what it is told.
        updates: what it was told.
        hiccups: how often it has no answer once a node was opened.
        silent: for how many looks slurmctld still counts those as not answering that were resumed.
    """

    root: str = "/"
    dry_run: bool = False
    nodes: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    refuses: str = ""
    updates: list[tuple[str, ...]] = field(default_factory=list)
    hiccups: int = 0
    silent: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.root, self.dry_run)

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[1] == "update":
            self.updates.append(tuple(argv[2:]))
            if self.refuses:
                return subprocess.CompletedProcess(argv, 1, b"", self.refuses.encode())
            self.update(dict(word.split("=", 1) for word in argv[2:]))
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        if self.hiccups and any("State=IDLE" in update for update in self.updates):
            self.hiccups -= 1
            raise ResourceFailed("slurmctld does not answer")
        shown = "".join(map(self.shown, self.nodes))
        self.silent = {name: looks - 1 for name, looks in self.silent.items() if looks > 1}
        return subprocess.CompletedProcess(argv, 0, shown.encode(), b"")

    def update(self, settings: Mapping[str, str]) -> None:
        for name in settings["NodeName"].split(","):
            state, reason, by = self.nodes[name]
            if settings["State"] == "RESUME":
                # slurmctld asks a node at once that was resumed.
                state = state.replace("+DRAIN", "").replace("+NOT_RESPONDING", "")
                self.nodes[name] = (state.replace("DOWN", "IDLE"), reason, by)
                self.silent[name] = 3
            elif settings["State"] == "IDLE":
                self.nodes[name] = (state.replace("+DRAIN", ""), reason, by)
            else:
                self.nodes[name] = (f"{state}+DRAIN", settings["Reason"], "root")

    def shown(self, name: str) -> str:
        state, reason, by = self.nodes[name]
        end = f" Reason={reason} [{by}@2026-11-21T09:00:00]" if reason else ""
        return f"NodeName={name} State={state}{'*' if name in self.silent else ''} CPUTot=2{end}\n"
