"""Packages through the controller: who is told of the proxy, and what is said where it cannot be."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, plan_input, run_over

from slurmfab.base.errors import ConnectionLost
from slurmfab.commands.bundle import through_controller
from slurmfab.commands.bundle.package_source import BundleSource
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.packages.package_way import PackageWay
from slurmfab.on_hosts.agent.packages.packages import Packages

INSTALLED = dict.fromkeys(("munge", "openssh-client", "slurm-client", "slurmctld", "slurmd"), "1")
WANTED = {host: (Packages(("munge", "slurmd")),) for host in ("c1", "n1", "n2")}
URIS = ["http://mirror.example/debian/"]
THROUGH = f"{THREE_HOSTS}packages: {{through: controller}}\n"
REPOSITORY = (
    "slurm: {packages: smd, version: '26.05.*', "
    "source: {uris: 'https://apt.example.org/slurm', suites: trixie, key: keys/slurm.asc}}\n"
)


@dataclass
class Listening(FakeHosts):
    """Hosts whose controller answers what it does about a proxy."""

    listen: Mapping[str, Any] = field(default_factory=lambda: {"port": 3142, "uris": URIS})
    end: Mapping[str, Any] = field(default_factory=dict)
    is_gone: bool = False
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "proxy":
            return super().call(host, request, heard)
        if self.is_gone:
            raise ConnectionLost(host, "it is gone")
        self.asked.append((host, request))
        return ({"proxy": dict(self.listen if request["do"] == "listen" else self.end)},)


@dataclass(frozen=True)
class Case:
    """A run over hosts of which c1 has all packages."""

    hosts: Listening
    run: Run
    known: PlanInput
    said: io.StringIO

    def delivered(self) -> Mapping[str, tuple[Any, ...]]:
        return BundleSource().deliver(self.run, self.known, WANTED)


def case(text: str = THROUGH, lacking: tuple[str, ...] = ("n1", "n2"), **answers: Any) -> Case:
    named, said = cluster(text), io.StringIO()
    facts = facts_of(named, addresses=("10.0.0.1", "192.168.7.1"))
    for host in {*named.hosts} - {*lacking}:
        facts[host] = facts_of(named, packages=INSTALLED, addresses=("10.0.0.1",))[host]
    hosts = Listening(facts, **answers)
    return Case(hosts, run_over(hosts, named, progress=Progress(said)), plan_input(named, facts), said)


def test_hosts_that_lack_packages_when_delivered_then_each_knows_the_way_by_a_token_of_its_own() -> None:
    one = case()
    delivered = one.delivered()
    ways = {host: given[0] for host, given in delivered.items() if isinstance(given[0], PackageWay)}
    assert {host: (way.address, way.port, way.uris) for host, way in ways.items()} == dict.fromkeys(
        ("n1", "n2"), ("10.0.0.1", 3142, tuple(URIS))
    )
    assert delivered["c1"] == WANTED["c1"]
    assert delivered["n1"][1:] == WANTED["n1"]
    [(host, request)] = one.hosts.asked
    assert (host, sorted(request["tokens"])) == ("c1", sorted(way.token for way in ways.values()))
    assert len({way.token for way in ways.values()}) == 2
    assert all(way.token not in repr(way) for way in ways.values())


def test_a_controller_that_lacks_packages_then_its_own_come_the_same_way() -> None:
    assert isinstance(case(lacking=("c1", "n1", "n2")).delivered()["c1"][0], PackageWay)


def test_hosts_that_lack_nothing_then_nobody_listens_and_nothing_is_ended() -> None:
    one = case(lacking=())
    source = BundleSource()
    assert source.deliver(one.run, one.known, WANTED) == WANTED
    source.finish(one.run)
    assert one.hosts.asked == []


def test_without_the_key_then_nobody_listens_and_nothing_is_ended() -> None:
    one = case(THREE_HOSTS)
    assert one.delivered() == WANTED
    BundleSource().finish(one.run)
    assert one.hosts.asked == []


def test_a_controller_that_cannot_listen_then_hosts_go_their_own_ways_and_the_reason_is_told() -> None:
    one = case(listen={"why": "it cannot listen at 10.0.0.1: Cannot assign requested address"})
    assert one.delivered() == WANTED
    assert (
        "Packages do not come through c1, but by each host's own way: it cannot listen at 10.0.0.1"
        in one.said.getvalue()
    )


def test_a_repository_for_slurm_in_the_cluster_file_then_it_is_served_as_well() -> None:
    one = case(THROUGH + REPOSITORY)
    one.delivered()
    assert one.hosts.asked[0][1]["uris"] == ["https://apt.example.org/slurm"]


def test_the_end_then_it_is_told_what_was_fetched_once_and_passed_on() -> None:
    one = case(end={"fetched": 110, "fetched_bytes": 34 << 20, "sent": 220, "sent_bytes": 68 << 20})
    source = BundleSource()
    source.deliver(one.run, one.known, WANTED)
    source.finish(one.run)
    assert "c1 fetched 110 files of packages once (34 MiB) and passed on 220 (68 MiB)." in one.said.getvalue()


def test_the_end_when_the_controller_is_gone_then_that_is_no_failure_of_its_own() -> None:
    through_controller.finish(case(is_gone=True).run)


@pytest.mark.parametrize(
    "answer", [{"port": 0}, {"port": 3142, "uris": ["file:///etc/shadow"]}, {"port": 3142, "uris": [], "more": 1}]
)
def test_a_controller_that_answers_nonsense_then_it_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="its proxy was refused"):
        case(listen=answer).delivered()
