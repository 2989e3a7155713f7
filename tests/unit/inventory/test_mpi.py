"""The key mpi of a cluster file, what follows from it, and the packages for it in each release."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory.modules import Mpi
from slurmfab.core.plan.phases import mpi

CHECKS = "gpu_checks: {program: all_reduce_perf}\n"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("pmix", Mpi(kind="pmix")),
        ("none", Mpi(kind="none")),
        ("{type: none, packages: openmpi}", Mpi(kind="none", packages="openmpi")),
        ("{}", Mpi()),
    ],
)
def test_mpi_is_a_word_or_a_mapping(said: str, found: Mpi) -> None:
    assert cluster(f"{THREE_HOSTS}mpi: {said}\n").mpi == found


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("mpi: openmpi", "mpi.type: it must be"),
        ("mpi: {packages: mpich}", "mpi.packages: it must be"),
        ("mpi: {type: pmi2, packages: openmpi}", "mpi: the distribution's Open MPI is started by pmix"),
        ("mpi: pmix\nslurm_conf: {MpiDefault: pmi2}", "remove one of the two"),
    ],
)
def test_what_makes_no_sense_is_refused(said: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{THREE_HOSTS}{said}\n")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("said", "checks", "started"),
    [
        ("", CHECKS, "pmix"),
        ("mpi: pmi2\n", CHECKS, "pmi2"),
        ("mpi: pmi2\n", CHECKS.replace("}", ", mpi: pmix}"), "pmix"),
    ],
)
def test_gpu_checks_are_started_in_the_same_way(said: str, checks: str, started: str) -> None:
    found = cluster(THREE_HOSTS + said + checks).own_gpu_checks
    assert found is not None
    assert found.mpi == started


@pytest.mark.parametrize(
    ("said", "slurm", "brought"),
    [
        ("mpi: pmix", "22.05.8", ("libpmix-dev",)),
        ("mpi: pmix", "24.11.5", ()),
        ("mpi: pmi2", "22.05.8", ()),
        ("mpi: {packages: openmpi}", "22.05.8", ("libpmix-dev", "openmpi-bin")),
        ("mpi: {packages: openmpi}", "24.11.5", ("openmpi-bin",)),
        ("", "22.05.8", ()),
    ],
)
def test_packages_are_what_the_release_needs(said: str, slurm: str, brought: tuple[str, ...]) -> None:
    wanted = prepared_input(f"{THREE_HOSTS}{said}\n", slurm=slurm)
    assert mpi.packages(wanted, "n1") == brought
    default = next((word for word in ("pmix", "pmi2") if word in said), "pmix" if "packages" in said else "none")
    assert f"MpiDefault={default}\n" in wanted.rendered["slurm.conf"]
