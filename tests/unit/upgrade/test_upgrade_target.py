"""Where an upgrade is to lead: --to, --suite, and the cluster file."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_packages import OtherSuite, SlurmPackages
from slurmfab.commands.upgrade.target import asked_version, target_of

SITE = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
DIRECTORY = SITE + 'slurm: {version: "24.11.*", source: {directory: debs}}\n'
SUITE = SlurmPackages.model_validate({"version": "24.11.*", "source": {"suite": "sid"}})


def with_key(key: SlurmPackages) -> Cluster:
    return cluster(SITE).model_copy(update={"slurm": key})


@pytest.mark.parametrize(
    ("present", "to", "suite", "version", "source"),
    [
        (SlurmPackages(), "26.05", "", "26.05.*", None),
        (SlurmPackages(), "26.05.5", "", "26.05.5", None),
        (SlurmPackages(), "", "sid", "", OtherSuite("sid")),
        (SlurmPackages(), "26.05", "sid", "26.05.*", OtherSuite("sid")),
        (SUITE, "26.05", "", "26.05.*", OtherSuite("sid")),
        (SUITE, "", "", "24.11.*", OtherSuite("sid")),
        (SUITE, "", "forky", "", OtherSuite("forky")),
    ],
)
def test_options_count_more_than_the_cluster_file(
    present: SlurmPackages, to: str, suite: str, version: str, source: OtherSuite | None
) -> None:
    target = target_of(with_key(present), to, suite)
    assert (asked_version(target, to, suite), target.source) == (version, source)


@pytest.mark.parametrize(
    ("to", "suite", "reason"),
    [
        ("", "", "Say where to"),
        ("26.5", "", "Did you mean 26.05?"),
        ("newest", "", "is not a version"),
        ("26.11", "", "does not know"),
        ("", "Sid!", "is not the name of a suite"),
    ],
)
def test_what_is_no_version_or_suite_is_explained(to: str, suite: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason.replace("?", r"\?")):
        target_of(with_key(SlurmPackages()), to, suite)


def test_slurm_of_no_package_is_refused_with_the_order_by_hand() -> None:
    built = SlurmPackages.model_validate({"packages": "none", "version": "24.11.*"})
    with pytest.raises(InputError, match=r"of no package here .* slurmdbd, .* slurmctld on all controllers; slurmd"):
        target_of(with_key(built), "26.05", "")


@pytest.mark.parametrize("text", [DIRECTORY, SITE + "bundle: lab.bundle.tar\n"])
def test_packages_of_a_directory_or_a_bundle_are_not_upgraded(text: str) -> None:
    with pytest.raises(InputError, match="sends none from a directory or a bundle"):
        target_of(cluster(text), "26.05", "")


def test_another_suite_takes_the_place_of_a_directory() -> None:
    assert target_of(cluster(DIRECTORY), "", "sid").source == OtherSuite("sid")
