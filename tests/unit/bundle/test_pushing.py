"""Packages on their way to hosts: only what a host lacks, in pieces, and a host that cannot take them is left out."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from saved_bundles import DEBS, saved
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, run_over, situation

from slurmfab.agent.packages import Packages
from slurmfab.bundle import archive, pushing
from slurmfab.errors import AgentFailed
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.ssh.session import Line

INSTALLED = dict.fromkeys(("munge", "openssh-client", "slurm-client", "slurmctld", "slurmd"), "1")
WANTED = (Packages(("munge", "slurmd")),)


@dataclass
class Takers(FakeHosts):
    """Hosts that take packages: each says what it lacks, and keeps what it is sent."""

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
    """A run over hosts of which some lack packages."""

    hosts: Takers
    run: Run
    known: Situation

    def delivered(self) -> dict[str, tuple[Any, ...]]:
        return pushing.delivered(self.run, self.known, dict.fromkeys(("c1", "n1", "n2"), WANTED))


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
    return Case(hosts, run_over(hosts, named), situation(named, facts))


def test_hosts_when_they_lack_packages_then_they_get_just_those_and_install_them_from_there(
    case: Case, path: Path
) -> None:
    delivered = case.delivered()
    munge, ssh, slurmd = DEBS
    assert case.hosts.taken == {"n1": {munge: DEBS[munge], slurmd: DEBS[slurmd]}, "n2": {ssh: DEBS[ssh]}}
    assert case.hosts.sealed == {"n1": [munge, slurmd], "n2": [ssh]}
    digest = archive.verified(path).digest
    assert {host: wanted[0].bundle for host, wanted in delivered.items()} == {"c1": "", "n1": digest, "n2": digest}


def test_a_large_package_when_it_is_sent_then_it_goes_in_pieces(case: Case) -> None:
    case.delivered()
    assert case.hosts.longest == pushing.PIECE < max(len(data) for data in DEBS.values())


def test_a_host_when_it_cannot_take_packages_then_it_is_left_out_and_the_others_go_on(case: Case) -> None:
    case.hosts.full = ("n1",)
    assert sorted(case.delivered()) == ["c1", "n2"]
    assert list(case.run.lost) == ["n1"]


def test_resources_when_the_cluster_file_names_no_bundle_then_they_stay_as_they_are(case: Case) -> None:
    known = situation(cluster(), facts_of(cluster()))
    run = run_over(case.hosts, cluster())
    assert pushing.delivered(run, known, {"n1": WANTED}) == {"n1": WANTED}
    assert case.hosts.taken == {}
