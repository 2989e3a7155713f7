"""Packages in files beside the cluster file: sent to the hosts that lack them, planned by name and version."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import made_debs
import pytest
from support import THREE_HOSTS, FakeHosts, facts_of, plan_input, prepared, run_over

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import deb_files, loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.bundle import making
from slurmfab.commands.bundle.package_source import BundleSource
from slurmfab.core.plan.phases import packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.packages.bundle_place import digest_of
from slurmfab.on_hosts.agent.packages.packages import Packages

NAME = "enroot_3.5.0-1_amd64.deb"
HOSTS = ("c1", "n1", "n2")


@dataclass
class Takers(FakeHosts):
    """Hosts that store packages; `stored` are the files that a host has from before."""

    stored: set[str] = field(default_factory=set)
    steps: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    on_begin: Callable[[], None] = lambda: None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "bundle":
            return super().call(host, request, heard)
        self.steps.append((host, request))
        if request["do"] == "begin-files":
            self.on_begin()
        lacking = [name for name in request.get("files", ()) if host not in self.stored]
        return ({"bundle": {"lacking": lacking}},)


@dataclass(frozen=True)
class Case:
    """A cluster with a package in a file for compute nodes, of which n2 has it already."""

    inventory: Inventory
    known: PlanInput
    hosts: Takers

    @staticmethod
    def at(folder: Path, more: str = "") -> Case:
        made_debs.saved(folder / NAME, data=bytes(600_000), Depends="curl, lacking | bash")
        path = folder / "cluster.yaml"
        path.write_text(f"{THREE_HOSTS}packages: {{compute: [{NAME}, tree], all: [hello=2*]}}\n{more}")
        inventory = loading.load(path)
        facts = facts_of(inventory.cluster, prepared, architecture="amd64")
        has = dict.fromkeys(("munge", "slurm-client", "slurmd", "openssh-client", "tree"), "1")
        facts["n2"] = dataclasses.replace(facts["n2"], packages={**has, "enroot": "3.5.0-1", "hello": "2.10"})
        known = dataclasses.replace(plan_input(inventory.cluster, facts), deb_files=deb_files.read(inventory))
        return Case(inventory, known, Takers(facts))

    def delivered(self) -> dict[str, Packages]:
        run = run_over(self.hosts, self.inventory.cluster, path=self.inventory.path)
        wanted = {host: packages.resources(self.known, host) for host in HOSTS}
        found = BundleSource().deliver(run, self.known, wanted)
        return {host: one for host, some in found.items() for one in some if isinstance(one, Packages)}


def test_the_plan_has_the_name_and_version_in_the_file(tmp_path: Path) -> None:
    case = Case.at(tmp_path)
    (wanted,) = packages.resources(case.known, "n1")
    assert isinstance(wanted, Packages)
    assert set(wanted.versions) == {"enroot=3.5.0-1", "hello=2*"}
    assert "enroot" not in packages.wanted(case.known, "c1")
    facts = dataclasses.replace(case.known.facts["c1"], added_packages=("enroot",))
    known = dataclasses.replace(case.known, facts={**case.known.facts, "c1": facts})
    assert [one.id for one in packages.former(known, "c1")] == ["packages-former:enroot"]


def test_the_file_is_sent_in_pieces_to_the_host_that_lacks_it_alone(tmp_path: Path) -> None:
    case = Case.at(tmp_path)
    sha256 = case.known.deb_files[NAME].digest()
    found = case.delivered()
    assert [found[host].files for host in HOSTS] == [(), (("enroot", NAME, sha256),), ()]
    assert {host for host, _ in case.hosts.steps} == {"n1"}
    (_, begun), *written = case.hosts.steps
    assert begun["bundle"] == digest_of(((NAME, sha256),))
    content = b"".join(base64.b64decode(step["data"]) for _, step in written)
    assert content == (tmp_path / NAME).read_bytes()
    assert [step["sha256"] for _, step in written] == ["", "", sha256]


def test_a_file_that_an_interrupted_run_has_sent_is_not_sent_again(tmp_path: Path) -> None:
    case = Case.at(tmp_path)
    case.hosts.stored = {"n1"}
    assert case.delivered()["n1"].files
    assert [step["do"] for _, step in case.hosts.steps] == ["begin-files"]


def test_a_file_that_goes_while_it_is_sent_ends_the_run_with_its_path(tmp_path: Path) -> None:
    case = Case.at(tmp_path)
    case.hosts.on_begin = (tmp_path / NAME).unlink
    with pytest.raises(InputError, match=NAME):
        case.delivered()


def test_a_host_of_another_architecture_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    case = Case.at(tmp_path)
    facts = {host: dataclasses.replace(fact, architecture="arm64") for host, fact in case.known.facts.items()}
    known = dataclasses.replace(case.known, facts=facts)
    reasons = BundleSource().refusals(case.inventory, known, HOSTS)
    assert list(reasons) == ["n1"], "n2 has the package already"
    assert "is for amd64, and the host is arm64" in reasons["n1"]


def test_a_bundle_has_the_packages_that_a_file_needs_and_those_with_versions(tmp_path: Path) -> None:
    case = Case.at(tmp_path)
    texts = making.texts_for(case.inventory.cluster, "c1", case.known.deb_files.values())
    assert {"curl", "lacking", "tree", "hello=2*"} <= set(texts)
    assert not {one for one in texts if "enroot" in one}
    assert {"enroot", "hello", "tree"} <= set(making.names_for(case.inventory.cluster, "c1"))


def test_a_group_of_nodes_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    made_debs.saved(tmp_path / NAME)
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{THREE_HOSTS}packages: {{groups: [{{hosts: n2, packages: [./{NAME}]}}]}}\n")
    inventory = loading.load(path)
    known = dataclasses.replace(
        plan_input(inventory.cluster, facts_of(inventory.cluster, prepared)), deb_files=deb_files.read(inventory)
    )
    assert [[one.text for one in packages.own(known, host)] for host in HOSTS] == [[], [], ["enroot=3.5.0-1"]]


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_a_bundle_carries_the_files_that_fit_the_host_that_makes_it(tmp_path: Path, architecture: str) -> None:
    from slurmfab.commands.bundle import archive

    case = Case.at(tmp_path)
    facts = dataclasses.replace(case.known.facts["c1"], architecture=architecture)
    collector = Collector({"c1": facts})
    run = run_over(collector, case.inventory.cluster, path=case.inventory.path)
    bundle = archive.verified(making.collect(run, "c1", ""))
    assert (NAME in bundle.parts) == (architecture == "amd64")
    assert ("Filename: ./" + NAME in bundle.index) == (architecture == "amd64")
    if architecture == "amd64":
        assert bundle.parts[NAME].read() == (tmp_path / NAME).read_bytes()
        assert bundle.index.count("\n\nPackage: ") == 1


@dataclass
class Collector(FakeHosts):
    """A host that sends one package for a bundle."""

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "collect":
            return super().call(host, request, heard)
        heard({"file": "slurm-client_1_amd64.deb"})
        heard({"piece": base64.b64encode(b"sinfo").decode()})
        return ({"collected": {"index": "Package: slurm-client\nVersion: 24.11.5-4\n"}},)
