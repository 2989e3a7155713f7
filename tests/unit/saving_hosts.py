"""Hosts that send the parts of a backup."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from saved_archives import CLUSTER_TEXT, PARTS
from support import FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import HostError
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.backup.archive import DATABASE, FILES, STATE

CONTENT = {"state": PARTS[STATE], "files": PARTS[FILES], "database": PARTS[DATABASE]}


@dataclass
class SavingHosts(FakeHosts):
    """Hosts with data to back up.

    Args:
        breaking: by part, what happens in the middle of it.
        saved: what was asked for, in order.
    """

    breaking: dict[str, HostError] = field(default_factory=dict)
    saved: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "save":
            return super().call(host, request, heard)
        self.saved.append((host, request))
        content = CONTENT[request["part"]]
        for piece in (content[:10], content[10:]):
            heard({"piece": base64.b64encode(piece).decode()})
            if request["part"] in self.breaking:
                raise self.breaking[request["part"]]
        about = {"next_job_id": 18, "jobs": [16, 17]} if request["part"] == "state" else {}
        return ({"saved": about},)


def begun(place: Path, text: str = CLUSTER_TEXT, **breaking: HostError) -> tuple[Run, SavingHosts]:
    """A run over hosts that are deployed to, with its cluster file in a directory."""
    path = place / "configs/cluster.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    known = cluster(text)
    facts = facts_of(known, prepared, slurm_conf="ClusterName=lab\nStateSaveLocation=/moved\n", munge_key="a2tr" * 30)
    hosts = SavingHosts(facts, breaking=breaking)
    return run_over(hosts, known, path=path), hosts
