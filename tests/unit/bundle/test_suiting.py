"""Which hosts lack packages, and whether a bundle has them: tables of facts and bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from saved_bundles import saved
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, host_facts, lost_words, prepared, run_over, situation

from slurmfab.agent.packages import Packages
from slurmfab.asking import cared_for
from slurmfab.bundle import archive, suiting
from slurmfab.bundle.making import names_for
from slurmfab.errors import InputError
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.plan import PHASES
from slurmfab.slurm.versions import SlurmVersion

EVERYTHING = THREE_HOSTS + "login: [l1]\ndatabase: c1\nusers: [{name: ann, sudo: true}]\n"
ALL_OF_THEM = dict.fromkeys(("munge", "openssh-client", "slurm-client", "slurmctld", "slurmd"), "1")


def bundle_in(place: Path, **about: Any) -> archive.Bundle:
    return archive.verified(saved(place, name="-".join(map(str, about.values())) or "bundle", **about))


@pytest.mark.parametrize(
    ("facts", "names", "said"),
    [
        ({"architecture": "amd64"}, ("munge", "slurmd"), ""),
        ({"architecture": "arm64"}, ("munge",), "runs trixie on arm64, and the bundles in the cluster file are for"),
        ({"architecture": "amd64", "codename": "bookworm"}, ("munge",), "runs bookworm on amd64, and the bundles"),
        ({"architecture": "amd64"}, ("munge", "slurmdbd"), "was made without slurmdbd, which the cluster file asks"),
    ],
)
def test_a_host_when_it_lacks_packages_then_a_bundle_has_them_or_it_is_said_why_not(
    tmp_path: Path, facts: dict[str, str], names: tuple[str, ...], said: str
) -> None:
    fact = host_facts("n1", **facts)
    reason = suiting.refusal((bundle_in(tmp_path),), fact, names, SlurmVersion(24, 11))
    assert said in reason
    assert bool(reason) == bool(said)
    assert not reason or "fab bundle" in reason


def test_a_bundle_when_its_slurm_is_another_than_the_clusters_then_it_is_refused(tmp_path: Path) -> None:
    fact = host_facts("n1", architecture="amd64")
    reason = suiting.refusal((bundle_in(tmp_path),), fact, ("munge",), SlurmVersion(25, 5))
    assert "has Slurm 24.11, and the cluster's is 25.05. Make it anew: fab bundle." in reason


def test_two_bundles_when_they_are_for_two_architectures_then_each_host_gets_its_own(tmp_path: Path) -> None:
    both = bundle_in(tmp_path), bundle_in(tmp_path, architecture="arm64")
    for bundle in both:
        assert suiting.suited(both, host_facts("n1", architecture=bundle.architecture)) == bundle


def test_two_bundles_when_they_are_for_the_same_hosts_then_the_newer_one_counts(tmp_path: Path) -> None:
    older = bundle_in(tmp_path)
    newer = bundle_in(tmp_path, made="2026-11-22T09:00:00+00:00")
    for both in ((older, newer), (newer, older)):
        assert suiting.suited(both, host_facts("n1", architecture="amd64")) == newer


def test_a_host_without_a_suitable_bundle_is_left_out_and_the_others_are_not(tmp_path: Path) -> None:
    named = cluster(f"{THREE_HOSTS}bundle: {saved(tmp_path)}\n")
    facts = facts_of(named, architecture="amd64") | {"n2": host_facts("n2", architecture="arm64")}
    run = run_over(FakeHosts(facts), named)
    suiting.leave_unsuited_out(run, situation(named, facts))
    assert list(run.lost) == ["n2"]
    assert lost_words(run.lost)["n2"].endswith("Nothing was changed there.")


def test_a_cluster_when_no_host_lacks_anything_then_its_bundle_need_not_be_there() -> None:
    named = cluster(THREE_HOSTS + "bundle: missing.tar\n")
    facts = facts_of(named, prepared, packages=ALL_OF_THEM, architecture="amd64")
    run = run_over(FakeHosts(facts), named)
    suiting.leave_unsuited_out(run, situation(named, facts))
    assert not run.lost


def test_a_cluster_when_a_host_lacks_something_and_the_bundle_is_missing_then_that_is_told() -> None:
    named = cluster(THREE_HOSTS + "bundle: missing.tar\n")
    facts = facts_of(named, architecture="amd64")
    with pytest.raises(InputError, match=r"There is no bundle missing.tar"):
        suiting.leave_unsuited_out(run_over(FakeHosts(facts), named), situation(named, facts))


def test_every_package_that_a_deployment_wants_is_asked_about_and_goes_into_bundles() -> None:
    whole = cluster(EVERYTHING)
    facts = facts_of(whole, prepared)
    known = situation(whole, facts)
    wanted = {
        name
        for phase in PHASES
        for host in whole.hosts
        for one in phase.resources(known, host)
        if isinstance(one, Packages)
        for name in one.names
    }
    assert wanted >= {"sudo", "mariadb-server", "slurmd", "slurmctld", "slurmdbd"}
    assert wanted <= set(cared_for(Inventory(whole, Lock(), Path("cluster.yaml")))["packages"])
    assert wanted <= set(names_for(whole))


def test_a_bundle_of_a_cluster_without_a_database_then_has_no_database_server() -> None:
    assert not {"mariadb-server", "slurmdbd"} & set(names_for(cluster()))
    external = "database: {host: c1, external: db.example.org, password_file: /p}\n"
    assert "slurmdbd" in names_for(cluster(THREE_HOSTS + external))
    assert "mariadb-server" not in names_for(cluster(THREE_HOSTS + external))
