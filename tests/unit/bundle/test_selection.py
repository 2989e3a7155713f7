"""Which hosts lack packages, and whether a bundle has them: tables of facts and bundles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from saved_bundles import saved
from support import THREE_HOSTS, cluster, facts_of, host_facts, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.bundle import archive, selection
from slurmfab.commands.bundle.making import names_for
from slurmfab.commands.bundle.package_source import BundleSource
from slurmfab.core.engine.requests import fact_selection
from slurmfab.core.plan.plan import PHASES
from slurmfab.on_hosts.agent.packages.packages import Packages

SOFTWARE = "mail: {relay: smtp, from: a@b.org}\nmodules: lmod\nmpi: {packages: openmpi}\ncontainers: [podman, oci]\n"
EVERYTHING = THREE_HOSTS + SOFTWARE + "login: [l1]\ndatabase: c1\nusers: [{name: ann, sudo: true}]\n"
ALL_OF_THEM = dict.fromkeys(("munge", "openssh-client", "slurm-client", "slurmctld", "slurmd"), "1")


def bundle_in(place: Path, **about: Any) -> archive.Bundle:
    return archive.verified(saved(place, name="-".join(map(str, about.values())) or "bundle", **about))


def refusals(named: Cluster, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts that cannot get packages from bundles, by the source that all tasks use."""
    known = Inventory(named, Lock(), Path("cluster.yaml"))
    return BundleSource().refusals(known, plan_input(named, facts), named.hosts)


@pytest.mark.parametrize(
    ("facts", "names", "said"),
    [
        ({"architecture": "amd64"}, ("munge", "slurmd"), ""),
        ({"architecture": "arm64"}, ("munge",), "runs trixie on arm64, but the bundles in the cluster file are for"),
        ({"architecture": "amd64", "codename": "bookworm"}, ("munge",), "runs bookworm on amd64, but the bundles"),
        ({"architecture": "amd64"}, ("munge", "slurmdbd"), "does not have slurmdbd, which the cluster file needs"),
    ],
)
def test_a_bundle_has_the_packages_that_a_host_lacks_or_the_reason_is_given(
    tmp_path: Path, facts: dict[str, str], names: tuple[str, ...], said: str
) -> None:
    fact = host_facts("n1", **facts)
    reason = selection.refusal((bundle_in(tmp_path),), fact, names, SlurmVersion(24, 11))
    assert said in reason
    assert bool(reason) == bool(said)
    assert not reason or "fab bundle" in reason


def test_a_bundle_with_another_slurm_than_the_clusters_is_refused(tmp_path: Path) -> None:
    fact = host_facts("n1", architecture="amd64")
    reason = selection.refusal((bundle_in(tmp_path),), fact, ("munge",), SlurmVersion(25, 5))
    assert "has Slurm 24.11, but the cluster has 25.05. Make it again: fab bundle." in reason


def test_each_host_gets_the_bundle_of_its_architecture(tmp_path: Path) -> None:
    both = bundle_in(tmp_path), bundle_in(tmp_path, architecture="arm64")
    for bundle in both:
        assert selection.newest_for(both, host_facts("n1", architecture=bundle.manifest.architecture)) == bundle


def test_of_two_bundles_for_the_same_system_the_newer_is_used(tmp_path: Path) -> None:
    older = bundle_in(tmp_path)
    newer = bundle_in(tmp_path, made="2026-11-22T09:00:00+00:00")
    for both in ((older, newer), (newer, older)):
        assert selection.newest_for(both, host_facts("n1", architecture="amd64")) == newer


def test_only_hosts_without_a_suitable_bundle_are_excluded(tmp_path: Path) -> None:
    named = cluster(f"{THREE_HOSTS}bundle: {saved(tmp_path)}\n")
    facts = facts_of(named, architecture="amd64") | {"n2": host_facts("n2", architecture="arm64")}
    reasons = refusals(named, facts)
    assert list(reasons) == ["n2"]
    assert reasons["n2"].endswith("Nothing was changed there.")


def test_the_bundle_may_be_missing_if_no_host_lacks_packages() -> None:
    named = cluster(THREE_HOSTS + "bundle: missing.tar\n")
    facts = facts_of(named, prepared, packages=ALL_OF_THEM, architecture="amd64")
    assert refusals(named, facts) == {}


def test_a_missing_bundle_is_an_error_if_a_host_lacks_packages() -> None:
    named = cluster(THREE_HOSTS + "bundle: missing.tar\n")
    facts = facts_of(named, architecture="amd64")
    with pytest.raises(InputError, match=r"There is no bundle missing.tar"):
        refusals(named, facts)


def test_every_package_of_a_deployment_is_in_facts_and_bundles() -> None:
    whole = cluster(EVERYTHING)
    facts = facts_of(whole, prepared)
    known = plan_input(whole, facts)
    wanted = {
        name
        for phase in PHASES
        for host in whole.hosts
        for one in phase.resources(known, host)
        if isinstance(one, Packages)
        for name in one.names
    }
    assert wanted >= {"sudo", "mariadb-server", "slurmd", "slurmctld", "slurmdbd"}
    assert wanted <= set(fact_selection(Inventory(whole, Lock(), Path("cluster.yaml")))["packages"])
    assert wanted <= set(names_for(whole, "c1"))


def test_a_bundle_of_a_cluster_without_a_database_has_no_database_server() -> None:
    assert not {"mariadb-server", "slurmdbd"} & set(names_for(cluster(), "c1"))
    external = "database: {host: c1, external: db.example.org, password_file: /p}\n"
    assert "slurmdbd" in names_for(cluster(THREE_HOSTS + external), "c1")
    assert "mariadb-server" not in names_for(cluster(THREE_HOSTS + external), "c1")


@pytest.mark.parametrize(
    ("codename", "names", "others"),
    [
        ("bookworm", {"docker.io", "docker-registry", "openssl"}, {"docker-cli", "apptainer"}),
        ("trixie", {"docker.io", "docker-cli", "docker-registry", "openssl", "squashfuse"}, {"apptainer"}),
        ("sid", {"docker.io", "docker-cli", "apptainer", "squashfuse"}, set[str]()),
    ],
)
def test_a_bundle_has_the_packages_for_containers_that_its_release_has(
    codename: str, names: set[str], others: set[str]
) -> None:
    keys = "registry: c1\ncontainers: {use: [docker, apptainer]}\n"
    found = set(names_for(cluster(THREE_HOSTS + keys), "c1", codename))
    assert names <= found
    assert not others & found
    assert not {*names, *others} - {"openssl"} & set(names_for(cluster(), "c1", codename))
