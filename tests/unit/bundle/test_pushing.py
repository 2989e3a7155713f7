"""Sending packages to hosts: only those that a host lacks, in pieces; a host that cannot store them is excluded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from saved_bundles import DEBS, saved
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, plan_input, run_over

from slurmfab.base.errors import AgentFailed
from slurmfab.commands.bundle import archive, sending
from slurmfab.commands.bundle.package_source import BundleSource
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.packages.packages import Packages

INSTALLED = dict.fromkeys(("munge", "openssh-client", "slurm-client", "slurmctld", "slurmd"), "1")
WANTED = (Packages(("munge", "slurmd")),)


@dataclass
class Takers(FakeHosts):
    """Hosts that store packages: each answers what it lacks, and remembers what it gets."""

    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    full: tuple[str, ...] = ()
    taken: dict[str, dict[str, bytes]] = field(default_factory=dict)
    sealed: dict[str, list[str]] = field(default_factory=dict)
    longest: int = 0

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "bundle":
            return super().call(host, request, heard)
        if host in self.full:
            raise AgentFailed(host, "the disk is full.")
        if request["do"] == "begin":
            return ({"bundle": {"lacking": list(self.lacking[host])}},)
        data = base64.b64decode(request["data"])
        files = self.taken.setdefault(host, {})
        assert request["at"] == len(files.get(request["file"], b""))
        files[request["file"]] = files.get(request["file"], b"") + data
        self.longest = max(self.longest, len(data))
        if request["sha256"]:
            assert hashlib.sha256(files[request["file"]]).hexdigest() == request["sha256"]
            self.sealed.setdefault(host, []).append(request["file"])
        return ({"bundle": {}},)


@dataclass(frozen=True)
class Case:
    """A run over hosts, some of which lack packages."""

    hosts: Takers
    run: Run
    known: PlanInput

    def delivered(self) -> Mapping[str, tuple[Any, ...]]:
        return BundleSource().deliver(self.run, self.known, dict.fromkeys(("c1", "n1", "n2"), WANTED))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path)


@pytest.fixture
def case(path: Path) -> Case:
    named = cluster(f"{THREE_HOSTS}bundle: {path}\n")
    facts = facts_of(named, architecture="amd64")
    facts["c1"] = facts_of(named, architecture="amd64", packages=INSTALLED)["c1"]
    munge, ssh, slurmd = DEBS
    hosts = Takers(facts, lacking={"n1": (munge, slurmd), "n2": (ssh,)})
    return Case(hosts, run_over(hosts, named), plan_input(named, facts))


def test_hosts_get_only_the_packages_that_they_lack_and_install_them_from_the_bundle(case: Case, path: Path) -> None:
    delivered = case.delivered()
    munge, ssh, slurmd = DEBS
    assert case.hosts.taken == {"n1": {munge: DEBS[munge], slurmd: DEBS[slurmd]}, "n2": {ssh: DEBS[ssh]}}
    assert case.hosts.sealed == {"n1": [munge, slurmd], "n2": [ssh]}
    digest = archive.verified(path).digest
    assert {host: wanted[0].bundle for host, wanted in delivered.items()} == {"c1": "", "n1": digest, "n2": digest}


def test_a_large_package_is_sent_in_pieces(case: Case) -> None:
    case.delivered()
    assert case.hosts.longest == sending.PIECE_BYTES < max(len(data) for data in DEBS.values())


def test_a_host_that_cannot_store_packages_is_excluded_and_the_others_continue(case: Case) -> None:
    case.hosts.full = ("n1",)
    assert sorted(case.delivered()) == ["c1", "n2"]
    assert list(case.run.failed_hosts) == ["n1"]


def test_without_a_bundle_resources_are_unchanged(case: Case) -> None:
    known = plan_input(cluster(), facts_of(cluster()))
    run = run_over(case.hosts, cluster())
    assert BundleSource().deliver(run, known, {"n1": WANTED}) == {"n1": WANTED}
    assert case.hosts.taken == {}
