"""Packages through the controller: what it fetches once, which host is sent what, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, plan_input, run_over

from slurmfab.base.errors import AgentFailed, ConnectionLost
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
THROUGH = f"{THREE_HOSTS}packages: {{through: controller}}\n"
LIST, KEY, OTHER = f"{'a' * 64}.gz", "b" * 64, "c" * 64
DEB = "slurmd_24.11.5-4_amd64.deb"
LACKS = f"{KEY} {DEB}"


def piece(data: bytes) -> Line:
    return {"piece": base64.b64encode(data).decode()}


@dataclass
class Hosts(FakeHosts):
    """A controller that has fetched a list and packages, and hosts that store what they are sent."""

    lists: tuple[Line, ...] = ({"file": LIST}, piece(b"list"))
    asks: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict.fromkeys(("n1", "n2"), (LACKS,)))
    failure: Exception | None = None
    large: Mapping[str, int] = field(default_factory=dict)  # bytes of packages, 3 of others
    lost: frozenset[str] = frozenset()  # packages that the controller has no room for
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    sent: dict[str, list[str]] = field(default_factory=dict)

    def sizes(self, request: Mapping[str, Any]) -> int:
        return sum(self.large.get(name, 3) for name in request["names"])

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] == "collect":
            self.asked.append(request)
            if self.failure:
                raise self.failure
            if request["part"] == "packages" and self.lost.intersection(request["names"]):
                raise AgentFailed("c1", "the disk is full")
            debs = [line for name in request.get("names", ()) for line in ({"file": name}, piece(b"de"), piece(b"b"))]
            lines = {"lists": self.lists, "packages": debs, "end": ()}
            if request["part"] == "packages" and self.sizes(request) > request["most"]:
                return ({"collected": {"index": "", "refused": self.sizes(request)}},)
            for line in lines[request["part"]]:
                heard(line)
            return ({"collected": {"index": ""}},)
        if request["op"] == "bundle":
            if request["do"] == "write":
                self.sent.setdefault(host, []).append(request["file"])
                return ({"bundle": {}},)
            return ({"bundle": {"lacking": [LIST] if request["do"] == "begin-lists" else list(self.asks[host])}},)
        if request["op"] == "apply":
            return tuple({"outcome": {"id": "package-way:controller", "status": "ok"}} for _ in request["resources"])
        return super().call(host, request, heard)


@dataclass(frozen=True)
class Case:
    """A run over hosts of which c1 has all packages."""

    hosts: Hosts
    run: Run
    known: PlanInput
    said: io.StringIO

    def delivered(self) -> Mapping[str, tuple[Any, ...]]:
        return BundleSource().deliver(self.run, self.known, WANTED)


def case(text: str = THROUGH, lacking: tuple[str, ...] = ("n1", "n2"), codename: str = "", **answers: Any) -> Case:
    named, said = cluster(text), io.StringIO()
    facts = facts_of(named, addresses=("10.0.0.1", "192.168.7.1"))
    for host in {*named.hosts} - {*lacking}:
        facts[host] = facts_of(named, packages=INSTALLED, addresses=("10.0.0.1",))[host]
    if codename:
        facts["n2"] = replace(facts["n2"], codename=codename)
    hosts = Hosts(facts, **answers)
    return Case(hosts, run_over(hosts, named, progress=Progress(said)), plan_input(named, facts), said)


def test_hosts_that_lack_packages_when_delivered_then_the_controller_fetches_once_and_each_gets_what_it_lacks() -> None:
    one = case(lacking=("c1", "n1", "n2"))
    delivered = one.delivered()
    assert [request["part"] for request in one.hosts.asked] == ["lists", "packages", "end"]
    assert one.hosts.asked[1]["names"] == [DEB]
    assert one.hosts.sent == {host: [LIST, KEY] for host in ("n1", "n2")}
    digest = hashlib.sha256(f"{LIST} {hashlib.sha256(b'list').hexdigest()}\n".encode()).hexdigest()
    assert {host: given[0] for host, given in delivered.items() if len(given) > 1} == dict.fromkeys(
        ("n1", "n2"), PackageWay(digest)
    )
    assert delivered["c1"] == WANTED["c1"], "the controller has its own way"
    assert "c1 fetched 2 files of packages (7 bytes) once for n[1-2]." in one.said.getvalue()


def test_a_host_that_lies_about_what_its_apt_looks_for_then_another_gets_its_own_files() -> None:
    one = case(asks={"n1": (f"{KEY} {DEB}",), "n2": (f"{OTHER} {DEB}", "x ../../etc/shadow", f"{KEY} no.deb")})
    one.delivered()
    assert one.hosts.sent == {"n1": [LIST, KEY], "n2": [LIST, OTHER]}
    assert one.hosts.asked[1]["names"] == [DEB]


HUGE = "texlive_1_all.deb"
OF_LIAR = (f"{OTHER} {HUGE}", f"{KEY} {DEB}")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"large": {HUGE: 9 << 30}}, "n1: it lacks 1 packages of 9.0 GiB, and 8.0 GiB may come through c1"),
        ({"lost": frozenset({HUGE})}, "n1: c1 cannot fetch the packages that it lacks: the disk is full"),
    ],
)
def test_a_host_that_lies_about_what_it_lacks_when_that_has_no_room_then_it_alone_is_left_out(
    answers: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(through_controller.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40))
    one = case(asks={"n1": OF_LIAR, "n2": (LACKS,)}, **answers)
    one.delivered()
    assert one.hosts.sent["n2"] == [LIST, KEY]
    assert told in str(one.run.failed_hosts["n1"])
    assert list(one.run.failed_hosts) == ["n1"]
    assert [request.get("names") for request in one.hosts.asked] == [None, [DEB], [HUGE], None]


@pytest.mark.parametrize(("text", "lacking"), [(THROUGH, ()), (THREE_HOSTS, ("n1", "n2")), (THROUGH, ("c1",))])
def test_without_the_key_or_a_host_that_lacks_packages_then_nothing_is_fetched(
    text: str, lacking: tuple[str, ...]
) -> None:
    one = case(text, lacking)
    assert one.delivered() == WANTED
    assert one.hosts.asked == []


def test_a_controller_that_cannot_fetch_then_hosts_go_their_own_ways_and_the_reason_is_told() -> None:
    one = case(failure=AgentFailed("c1", "packages cannot be downloaded: no route"))
    assert one.delivered() == WANTED
    assert "Packages do not come through c1, but by each host's own way: c1: packages cannot" in one.said.getvalue()


@pytest.mark.parametrize(
    "lines",
    [
        ({"file": "../../etc/passwd"},),
        ({"file": "/etc/passwd"},),
        ({"file": DEB},),
        ({"file": LIST}, {"file": LIST}),
        (piece(b"x"),),
    ],
    ids=repr,
)
def test_a_controller_that_sends_other_names_or_data_then_that_is_refused_and_nothing_is_written(
    lines: tuple[Line, ...],
) -> None:
    one = case(lists=lines)
    assert one.delivered() == WANTED
    assert "Packages do not come through c1" in one.said.getvalue()
    assert one.hosts.sent == {}


def test_a_controller_that_is_lost_then_that_is_the_controllers_failure() -> None:
    with pytest.raises(ConnectionLost):
        case(failure=ConnectionLost("c1", "it is gone")).delivered()


def test_a_host_of_another_release_than_the_controller_then_is_refused_before_anything_is_changed() -> None:
    one = case(codename="bookworm")
    found = through_controller.refusals(one.known, ("c1", "n1", "n2"))
    assert list(found) == ["n2"]
    assert "bookworm" in found["n2"]
    assert BundleSource().refusals(one.run.inventory, one.known, ("n1", "n2")) == found
